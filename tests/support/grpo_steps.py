"""Two optimiser steps of TRL's ``GRPOTrainer`` on the CPU, in an environment of its own (``make doors``).

``python grpo_steps.py WIRE URL`` trains at a server's sessions: with ``tools`` by ``TrainingEnvironment``, with
``openenv`` by OpenEnv's own client. It prints JSON: what TRL logged of each step, and how far the weights have moved.

The model has 1.0 M parameters of Qwen2's shape. A random one never calls a tool, so it first takes supervised steps on
conversations whose policies are drawn at random. That shows that everything is connected, not that anything is learned.
"""

import json
import math
import random
import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen2_5_chat_template

from evopolicygym import TrainingEnvironment

WARM_STEPS, WARM_BATCH, WARM_RATE = 90, 8, 2e-3
STEPS, GROUP, GROUPS = 2, 4, 2
COMPLETION = 384
PAD, END = "<|endoftext|>", "<|im_end|>"
RULES = ("0", "int(obs[2] > 0)", "int(obs[3] > 0)", "int(obs[2] + obs[3] > 0)", "int(obs[2] + obs[3] / 2 > 0)")
POLICY = """\
class Policy:
    def __init__(self, *a): pass
    def reset(self, i): pass
    def act(self, obs): return {rule}
"""


class OpenEnvTools:
    """The same tools by OpenEnv's client: a socket for each rollout."""

    url = ""

    def __init__(self) -> None:
        """Connect with the first reset."""
        self._client = None
        self._value, self._done = 0.0, True

    def reset(self, seed: int = 0, **_columns: object) -> str:
        """Begin the session that a seed names, and return its task.

        Args:
            seed: Names the session.
        """
        from openenv.core import GenericEnvClient

        self._client = GenericEnvClient(base_url=self.url, message_timeout_s=600).sync()
        self._client.connect()
        self._value, self._done = 0.0, False
        return self._client.reset(seed=seed).observation["text"]

    def write(self, path: str, content: str) -> str:
        """Write a file of the policy; it replaces the file of that name.

        Args:
            path: The file's path, such as policy.py.
            content: Its whole content.
        """
        return self._take("write", path=path, content=content)

    def submit(self, episodes: int) -> str:
        """Play the policy for some train episodes of the budget.

        Args:
            episodes: How many.
        """
        return self._take("submit", episodes=episodes)

    def finish(self) -> str:
        """End here: the best submission is selected and scored on hidden cases."""
        return self._take("finish")

    def get_reward(self) -> float:
        """Finish, if the agent hasn't, and return the sum of the steps' rewards."""
        if not self._done:
            self._take("finish")
        while not self._done:
            self._take("look")
        self._client.close()
        return self._value

    def _take(self, action: str, **arguments: object) -> str:
        result = self._client.step({"action": action, "arguments": arguments})
        self._value, self._done = self._value + result.reward, self._done or result.done
        return result.observation["text"]


def conversation(task: str, draw: random.Random) -> list[dict]:
    """Return a conversation that writes a random policy, submits it and finishes."""

    def call(name: str, **arguments: object) -> dict:
        function = {"name": name, "arguments": arguments}
        return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}

    content = POLICY.format(rule=draw.choice(RULES))
    return [
        {"role": "user", "content": task},
        call("write", path="policy.py", content=content),
        {"role": "tool", "name": "write", "content": f"policy.py: {len(content)} bytes written."},
        call("submit", episodes=draw.randint(1, 4)),
        {"role": "tool", "name": "submit", "content": "Submission 0 is played."},
        call("finish"),
    ]


def wrapped(tokens: Tokenizer) -> PreTrainedTokenizerFast:
    """Return a tokenizer with Qwen2.5's template, whose tool calls TRL can read."""
    return PreTrainedTokenizerFast(
        tokenizer_object=tokens, pad_token=PAD, eos_token=END, chat_template=qwen2_5_chat_template, padding_side="left"
    )


def tokenizer_of(task: str, tools: list) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE of lines, which makes few tokens of the prompt that all conversations share."""
    tokens = Tokenizer(models.BPE())
    lines = pre_tokenizers.Split("\n", "merged_with_previous")
    tokens.pre_tokenizer = pre_tokenizers.Sequence(
        [lines, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokens.decoder = decoders.ByteLevel()
    tokenizer = wrapped(tokens)
    draw = random.Random(1)  # noqa: S311 - no secret
    texts = [tokenizer.apply_chat_template(conversation(task, draw), tools=tools, tokenize=False) for _ in range(50)]
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        max_token_length=48,
        special_tokens=[PAD, "<|im_start|>", END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokens.train_from_iterator(texts, trainer)
    tokens.add_tokens([AddedToken("<tool_call>"), AddedToken("</tool_call>")])
    return wrapped(tokens)


def warm(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, task: str, tools: list) -> float:
    """Take the supervised steps on what the assistant says; return the last loss."""
    draw = random.Random(0)  # noqa: S311 - no secret
    optimiser = torch.optim.AdamW(model.parameters(), lr=WARM_RATE)
    loss = math.nan
    for _ in range(WARM_STEPS):
        rows, labels = [], []
        for _ in range(WARM_BATCH):
            messages = conversation(task, draw)
            row, known = [], []
            for end in range(1, len(messages) + 1):
                asked = messages[end - 1]["role"] != "assistant"
                ids = tokenizer.apply_chat_template(
                    messages[:end], tools=tools, add_generation_prompt=asked, return_dict=False
                )
                known += [-100] * (len(ids) - len(row)) if asked else ids[len(row) :]
                row = ids
            rows.append(torch.tensor(row))
            labels.append(torch.tensor(known))
        batch = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=tokenizer.pad_token_id)
        wanted = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100)
        output = model(input_ids=batch, attention_mask=(batch != tokenizer.pad_token_id).long(), labels=wanted)
        optimiser.zero_grad()
        output.loss.backward()
        optimiser.step()
        loss = output.loss.item()
    return loss


def main(wire: str, url: str) -> None:
    """Warm, train and print."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # on busy cores several threads wait for one another
    OpenEnvTools.url = url
    factory = OpenEnvTools if wire == "openenv" else lambda: TrainingEnvironment(url=url)
    probe = factory()
    task = f"Begin.{probe.reset(seed=0)}"
    probe.get_reward()
    tools = [getattr(probe, name) for name in ("write", "submit", "look", "finish") if hasattr(probe, name)]
    tokenizer = tokenizer_of(task, tools)
    shape = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4}
    model = Qwen2ForCausalLM(
        Qwen2Config(
            **shape, num_key_value_heads=2, vocab_size=len(tokenizer), max_position_embeddings=4096,
            tie_word_embeddings=True, bos_token_id=None, eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )  # fmt: skip
    loss = warm(model, tokenizer, task, tools)
    before = torch.cat([each.detach().flatten().clone() for each in model.parameters()])
    with tempfile.TemporaryDirectory() as directory:
        trainer = GRPOTrainer(
            model=model,
            args=GRPOConfig(
                output_dir=directory, max_steps=STEPS, logging_steps=1, learning_rate=1e-3, use_cpu=True, seed=1,
                per_device_train_batch_size=GROUP * GROUPS, num_generations=GROUP, max_completion_length=COMPLETION,
                max_tool_calling_iterations=4, report_to="none", save_strategy="no", disable_tqdm=True, bf16=False,
            ),
            train_dataset=Dataset.from_list(
                [{"prompt": [{"role": "user", "content": "Begin."}], "seed": seed} for seed in range(GROUPS * STEPS)]
            ),
            processing_class=tokenizer,
            environment_factory=factory,
        )  # fmt: skip
        trainer.train()
    after = torch.cat([each.detach().flatten() for each in trainer.model.parameters()])
    result = {
        "parameters": len(after),
        "warm_loss": loss,
        "prompt": len(tokenizer(task)["input_ids"]),
        "steps": [log for log in trainer.state.log_history if "reward" in log],
        "moved": torch.linalg.vector_norm(after - before).item(),
        "norm": torch.linalg.vector_norm(before).item(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
