"""The check of an agent's own model: one request tells how it acts, what it holds, how fast it is, and a run's time."""

import json
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from evopolicygym.agents.kit.scripted_model.server import INPUT, OUTPUT, Json, Reply, ScriptedModel
from evopolicygym.model_proxy.formats import ApiFormat
from neutral_models import calling, raw_calling
from shell import Shell

PROGRAM = "Idea: go left.\n```python\nclass Policy:\n    def act(self, obs):\n        return 0\n```"
OTHER_CALL = '{"name": "judge", "arguments": {"task": "Submit"}}'
TIMINGS = {"prompt_n": 300, "prompt_per_second": 30.0, "predicted_n": 50, "predicted_per_second": 10.0}


def server_pages(context: int) -> dict[str, Json]:
    """Return what llama.cpp's server tells."""
    properties = {"default_generation_settings": {"n_ctx": context}, "model_path": "/m/small-q4_k_m.gguf"}
    return {"/props": properties, "/v1/models": {"data": []}}


def chat(text: str) -> Reply:
    """Return an answer in the format chat with what llama.cpp measures."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT}
    document = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    return Reply(raw=json.dumps({**document, "timings": TIMINGS}).encode())


def checked(shell: Shell, agent: str, reply: Reply, *words: str, context: int = 16384) -> tuple[int, dict[str, Any]]:
    """Return the exit code of a check with a server's address, and its findings by name."""
    with ScriptedModel() as model:
        model.pages, model.replies = server_pages(context), [reply]
        left = shell("check", "agent", agent, "--model", "small", "--model-url", model.url, "--json", *words)

        assert len(model.generations) == 1
    return left.code, {finding["name"]: finding for finding in json.loads(left.out)["findings"]}


@pytest.mark.parametrize(
    ("agent", "reply", "words", "acts_by"),
    [
        ("neutral", calling(ApiFormat.CHAT, "cat AGENTS.md"), (), "calls"),
        ("neutral", chat("```bash\ncat AGENTS.md\n```"), (), "text"),
        ("neutral", chat("```bash\ncat AGENTS.md\n```"), ("--option", "actions=text"), "text"),
        ("neutral", chat(OTHER_CALL), (), "other calls"),
        ("neutral", raw_calling(ApiFormat.CHAT, "{}", name="judge"), (), "other calls"),
        ("neutral", chat("I would begin."), (), ""),
        ("rewrite", chat(PROGRAM), (), "program"),
        ("rewrite", chat("Idea: nothing."), (), ""),
    ],
)
def test_how_a_model_acts(agent: str, reply: Reply, words: tuple[str, ...], acts_by: str, shell: Shell) -> None:
    """One request tells whether calls come as calls or as text; the exit code is 1 where nothing can be run."""
    code, findings = checked(shell, agent, reply, *words)

    assert list(findings) == ["answers", "acts by", "context", "speed", "time of a run"]
    assert (findings["acts by"]["acts_by"], findings["acts by"]["ok"]) == (acts_by, acts_by not in {"", "other calls"})
    assert code == (0 if findings["acts by"]["ok"] else 1)


def test_how_long_a_run_takes(shell: Shell) -> None:
    """It is the number of answers that a budget needs, at the speed that the server measured."""
    _, findings = checked(shell, "rewrite", chat(PROGRAM), "--budget", "32")
    speed, time = findings["speed"], findings["time of a run"]

    assert (speed["read"], speed["written"], speed["input"], speed["output"]) == (30.0, 10.0, INPUT, OUTPUT)
    assert (time["budget"], time["seconds"]) == (32, pytest.approx(32 / 4 * 2 * (800 / 30 + 200 / 10)))


def test_a_context_that_is_too_small(shell: Shell) -> None:
    """The context that the server tells is compared with what the agent needs."""
    code, findings = checked(shell, "neutral", calling(ApiFormat.CHAT, "true"), context=4096)

    assert (code, findings["context"]["ok"]) == (1, False)
    assert (findings["context"]["context"], findings["context"]["needed"]) == (4096, 16000)


def test_a_server_that_is_not_there(shell: Shell) -> None:
    """A server that doesn't have the model is a finding with its words, and no question of how a run would go."""
    with ScriptedModel() as model:
        model.replies = [Reply("no such model", status=404)]
        left = shell("check", "agent", "neutral", "--model", "small", "--model-url", model.url, "--json")
    (finding,) = json.loads(left.out)["findings"]

    assert (left.code, finding["name"], finding["ok"]) == (1, "answers", False)
    assert "no such model" in finding["detail"]


def test_an_estimate_without_played_runs(tmp_path: Path) -> None:
    """The time of a local model is in an estimate that no run tells; a server that tells nothing is not asked."""
    options: dict[str, Any] = {"model": "small", "budget": 32, "runs": tmp_path}
    with ScriptedModel() as model:
        model.pages, model.replies = server_pages(16384), [chat(PROGRAM)]
        local = evopolicygym.estimate("cartpole", "rewrite", model_url=model.url, **options)
        model.pages = {}
        other = evopolicygym.estimate("cartpole", "rewrite", model_url=model.url, **options)
        asked = len(model.generations)

    assert asked == 1
    assert local.seconds is not None
    assert other.seconds is not None
    assert (local.seconds.is_lower_bound, other.seconds.is_lower_bound) == (False, True)
    assert local.seconds.expected - other.seconds.expected == pytest.approx(32 / 4 * 2 * (800 / 30 + 200 / 10))
