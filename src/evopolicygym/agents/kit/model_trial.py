"""One request to a model, as an agent would make it: how it acts, how fast it is, and how long a run will take."""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from evopolicygym.agents.kit.model_options import ANSWER_TOKENS, SAMPLING, choose_model
from evopolicygym.agents.kit.model_requests import ModelRequests
from evopolicygym.agents.kit.neutral_harness.chat_formats import CONVERSATIONS, Answer, Conversation
from evopolicygym.agents.kit.neutral_harness.text_actions import actions_in, blocks_of, tools_called
from evopolicygym.agents.kit.policy_form import policy_form
from evopolicygym.core.agent import AgentConfig, Workspace
from evopolicygym.model_proxy.server_details import read_server_details

if TYPE_CHECKING:
    from evopolicygym.agents.kit.neutral_harness.model_client import ModelClient

MOST_ANSWER = 700
"""Most tokens of the answer of a local model; a small one may not find an end."""
FEWEST_TIMED = 32
"""Fewer tokens that were read tell nothing of the speed: the rest was in the server's cache."""
TASK = """\
The environment: a pole stands on a cart that moves along a track. Each step the policy pushes the cart to the left (0)
or to the right (1). Observations are the cart's position and velocity, and the pole's angle and angular velocity. Each
step pays 1; the episode ends when the pole falls, the cart leaves the track, or after 500 steps."""

SPACES: Mapping[str, Any] = {
    "obs_space": {"type": "Box", "shape": (4,), "dtype": "float32"}, "action_space": {"type": "Discrete", "n": 2}
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pattern:
    """How an agent usually asks its model, for an estimate of time."""

    episodes: int
    """Most episodes of a submission."""
    answers: float
    """Answers for each submission."""
    read: int
    """Tokens that the server reads anew for each answer."""
    written: int
    """Tokens of each answer."""
    context: int
    """Tokens that the agent needs the model to hold."""


PATTERNS: Mapping[str, Pattern] = {
    "neutral": Pattern(8, 4, 600, 250, 16_000),
    "rewrite": Pattern(4, 2, 800, 200, 2_000),
    "openevolve": Pattern(4, 1, 2500, 600, 8_000),
    "gepa": Pattern(8, 2, 2500, 600, 8_000),
}
"""By agent. Assumed from a few runs of small models; an estimate from runs that were played is better."""


@dataclass(frozen=True, slots=True)
class ModelTrial:
    """What one request told."""

    agent: str
    details: Mapping[str, str]
    """What the server tells of the model."""
    answer: Answer
    seconds: float
    input: int
    output: int
    read_speed: float | None
    """Tokens read in a second, as the server measured; None where it doesn't tell."""
    write_speed: float
    """Tokens written in a second; where the server doesn't measure, the time to read is included."""

    @property
    def acts_by(self) -> str:
        """How the answer acts: ``calls``, ``text``, ``other calls``, ``program`` or nothing."""
        if self.agent != "neutral":
            programs = [content for _, content in blocks_of(self.answer.text) if "class Policy" in content]
            return "program" if programs else ""
        if any(call.command is not None for call in self.answer.calls):
            return "calls"
        if actions_in(self.answer.text):
            return "text"
        return "other calls" if self.answer.calls or tools_called(self.answer.text) else ""

    def seconds_of_run(self, budget: int) -> float:
        """Return how long the model is about to take in a run with this budget of episodes."""
        pattern = PATTERNS[self.agent]
        episodes = min(pattern.episodes, max(1, budget // 8))
        reading_s = pattern.read / self.read_speed if self.read_speed else 0.0
        return budget / episodes * pattern.answers * (reading_s + pattern.written / self.write_speed)


def has_local_model(config: AgentConfig) -> bool:
    """Return whether an agent that can be tried has a model whose server tells what it runs, as hosted ones don't."""
    if config.name not in PATTERNS or "model_url" not in config.options:
        return False
    return bool(read_server_details(*choose_model(config, CONVERSATIONS, [*config.options])))


def try_model(config: AgentConfig) -> ModelTrial:
    """Make one request to an agent's model.

    Raises ``UsageError`` or ``MissingExtra`` for an invalid config, and what ``ModelClient.ask`` raises.
    """
    upstream, model = choose_model(config, CONVERSATIONS, [*config.options])
    details = read_server_details(upstream, model)
    sampling = {name: config.options[name] for name in SAMPLING if name in config.options}
    if details:
        sampling.setdefault(ANSWER_TOKENS, MOST_ANSWER)
    from evopolicygym.agents.kit.neutral_harness.model_client import ModelClient

    with TemporaryDirectory(prefix="evopolicygym-check-") as directory:
        workspace = Workspace(Path(directory), Path(directory, "agent.log"), 0, "")
        requests = ModelRequests(model, upstream.wire, sampling, details, caches=True)
        with ModelClient(upstream, requests, workspace) as client:
            conversation = _timed(client, config)
            begin = time.monotonic()
            answer = client.ask(conversation, time.sleep)
            seconds = time.monotonic() - begin
            usage = client.usage()
    timings = conversation.timings
    reads = timings.get("prompt_per_second") if timings.get("prompt_n", 0) >= FEWEST_TIMED else None
    writes = timings.get("predicted_per_second") or usage.output / seconds
    return ModelTrial(config.name, details, answer, seconds, usage.input, usage.output, reads, max(writes, 1e-3))


def _timed(client: "ModelClient", config: AgentConfig) -> "_TimedConversation":
    """Return the conversation with an agent's first request; what it begins with is in no server's cache."""
    is_text = config.options.get("actions") == "text"
    is_neutral = config.name == "neutral"
    conversation = _TimedConversation(client.conversation(config.effort, bash=is_neutral and not is_text))
    kit = files("evopolicygym.agents.kit")
    if is_neutral:
        texts = ["prompt.md", *(["prompt_text.md"] if is_text else [])]
        prompt = "".join((kit / "neutral_harness" / name).read_text(encoding="utf-8") for name in texts)
    else:
        prompt = (kit / "rewrite_prompts" / "search.md").read_text(encoding="utf-8")
        for placeholder, text in (
            ("<task>", TASK),
            ("<imports>", "numpy"),
            ("<form>", policy_form(SPACES)),
            ("<tries>", ""),
        ):
            prompt = prompt.replace(placeholder, text)
    conversation.say(f"Trial {secrets.token_hex(4)}.\n\n{prompt}")
    return conversation


class _TimedConversation:
    """A conversation that keeps what the server measured, as llama.cpp's does."""

    def __init__(self, inner: Conversation) -> None:
        self.wire, self.path, self.headers = inner.wire, inner.path, inner.headers
        self.timings: Mapping[str, float] = {}
        self._inner = inner

    def body(self, model: str) -> dict[str, Any]:
        return self._inner.body(model)

    def say(self, text: str) -> None:
        self._inner.say(text)

    def read(self, document: dict[str, Any]) -> Answer:
        timings = document.get("timings")
        numbers = timings.items() if isinstance(timings, dict) else ()
        self.timings = {name: value for name, value in numbers if isinstance(value, int | float) and value > 0}
        return self._inner.read(document)

    def add(self, answer: Answer, results: Sequence[str]) -> None:
        self._inner.add(answer, results)
