"""Tasks of Inspect AI: a sample is a run, played by Inspect's mock model and scored by us. Needs bubblewrap."""

import json
import math
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from enclosed import needs_bubblewrap

pytest.importorskip("inspect_ai", reason="inspect-ai isn't installed; the extra 'inspect' brings it")

from inspect_evals import FAIL, bash, command_line, evaluate, kill_once, read_logs

pytestmark = needs_bubblewrap
OPTIONS = {"budget": 4, "validation": 1, "held_out": 2, "split": "public", "workers": 1}
POLICY = """
from helper import LEFT


class Policy:
    def __init__(self, *_): ...
    def reset(self, _): ...
    def act(self, _): return LEFT
"""
WRITE = {"command": "create", "path": "/workspace/system/helper.py", "file_text": "LEFT = 0\n"}


def runs_of(directory: Path) -> list[Path]:
    return sorted(directory.glob("runs/default/inspect_ai/*/*"))


def document(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "run.json").read_bytes())
    return found


@pytest.mark.nightly
def test_the_command_line(tmp_path: Path) -> None:
    """The page's command plays a run and leaves a log; a model that does nothing is worth random play."""
    given = [f"-T{name}={value}" for name, value in OPTIONS.items()]
    words = ["eval", "evopolicygym/core16", "-T", "environment=acrobot", *given, "--model", "mockllm/model"]
    done = command_line(tmp_path, *words, "--display", "plain")
    (log,) = read_logs(tmp_path / "logs")
    (sample,) = log.samples
    value = sample.scores["run_score"].value
    asked = [message.text for message in sample.messages if message.role == "user"]

    assert (done.returncode, log.status) == (0, "success"), done.stdout + done.stderr
    assert (value["normalised"], math.isnan(value["return"])) == (0.0, True)
    assert [re.findall(r"\d+", text) for text in asked[1:]] == [["4"]] * 2
    assert document(*runs_of(tmp_path))["outcome"]["status"] == "no_ok_submit"


def test_a_sample_is_a_run(tmp_path: Path) -> None:
    """A model with a shell and an editor spends the budget; the score is the run's, whose record says who drove it."""
    answers = [
        {"tool": "text_editor", "arguments": WRITE},
        bash(f"cat AGENTS.md >&2; cat > system/policy.py <<'END'\n{POLICY}\nEND"),
        bash("./judge submit 0-3"),
    ]
    done = evaluate(tmp_path, {"task": "evopolicygym/acrobot", "options": OPTIONS, "answers": answers})
    (log,) = read_logs(tmp_path / "logs")
    score = log.samples[0].scores["run_score"]
    run = evopolicygym.load_run(score.metadata["run"])
    record = document(run.path)
    held_in = record["isolation"]["agent"]

    assert (done.returncode, log.status) == (0, "success"), done.stdout + done.stderr
    assert score.value == {"normalised": 0.0, "return": run.score, "success_rate": 0.0}
    assert score.metadata["standard_error"] == run.standard_error
    assert (score.metadata["isolation"], score.metadata["resumed"]) == ("bubblewrap", False)
    assert {one.name: set(one.metrics) for one in log.results.scores} == {
        "normalised": {"mean", "stderr"}, "return": {"grouped_acrobot"}, "success_rate": {"mean", "stderr"},
    }  # fmt: skip
    assert (record["agent"]["label"], record["agent"]["model"]) == ("react (inspect)", "scripted/model")
    assert f"{version('inspect-ai')}, solver react" in held_in["driven by"]
    assert ("hidden" in held_in, record["usage"]) == (True, None)
    assert record["tool_usage"] == {"input": 30, "cached_input": 0, "output": 15, "reasoning": 0}
    assert record["outcome"]["closed"] == "budget_spent"
    assert evopolicygym.verify(run.path).ok


def test_a_task_without_a_reference_has_no_unknown_values() -> None:
    """What no environment of a task can have is neither a value of its samples nor a metric; a mixed one has all."""
    from evopolicygym.inspect_tasks.tasks import TASKS

    alone, mixed = (set(TASKS["cartpole"](environment=names).metrics) for names in ("", ["cartpole", "acrobot"]))

    assert alone == {"return"}
    assert mixed == {"normalised", "return", "success_rate"}


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["eval_set", "retry_on_error", "killed"])
def test_another_try_goes_on_with_the_same_run(way: str, tmp_path: Path) -> None:
    """A sample that failed is tried again with what is left of the budget, by another process or in the same one."""
    plan: dict[str, Any] = {"task": "evopolicygym/cartpole", "options": OPTIONS}
    eval_set = {**plan, "eval_set": "logs", "settings": {"retry_attempts": 0}}
    first, second = bash("./judge submit 0-2"), bash("./judge submit 3")
    if way == "retry_on_error":
        done = evaluate(tmp_path, {**plan, "settings": {"retry_on_error": 1}, "answers": [first, FAIL, second]})
    elif way == "eval_set":
        evaluate(tmp_path, {**eval_set, "answers": [first, FAIL]})
        done = evaluate(tmp_path, {**eval_set, "answers": [second]})
    else:
        kill_once(tmp_path, {**eval_set, "answers": [bash("./judge submit 0-2; sleep 1000")]}, "submission_published")
        done = evaluate(tmp_path, {**eval_set, "answers": [second]})
    log = read_logs(tmp_path / "logs")[-1]
    score = log.samples[0].scores["run_score"]

    assert (done.returncode, log.status) == (0, "success"), done.stdout + done.stderr
    assert (score.metadata["resumed"], score.metadata["spent"], score.metadata["submissions"]) == (True, 4, 2)
    assert [str(run) for run in runs_of(tmp_path)] == [score.metadata["run"]]


@pytest.mark.nightly
def test_epochs_are_runs_of_their_own(tmp_path: Path) -> None:
    """Each epoch is another run, whose seed is the next."""
    answers = [bash("./judge submit 0-3")] * 2
    settings = {"epochs": 2, "max_samples": 1}
    plan = {"task": "evopolicygym/cartpole", "options": {**OPTIONS, "seed": 5}, "settings": settings}
    done = evaluate(tmp_path, {**plan, "answers": answers})

    assert done.returncode == 0, done.stdout + done.stderr
    assert [document(run)["seed"] for run in runs_of(tmp_path)] == [5, 6]


@pytest.mark.nightly
def test_a_limit_of_inspect_ends_a_sample_that_is_scored(tmp_path: Path) -> None:
    """A sample that reaches a limit of Inspect's is scored with what it has submitted."""
    answers = [bash("./judge submit 0-1"), *[bash("ls")] * 3]
    plan = {"task": "evopolicygym/cartpole", "options": OPTIONS, "settings": {"message_limit": 5}}
    done = evaluate(tmp_path, {**plan, "answers": answers})
    (log,) = read_logs(tmp_path / "logs")
    (sample,) = log.samples
    outcome = document(*runs_of(tmp_path))["outcome"]

    assert (done.returncode, log.status, sample.limit.type) == (0, "success", "message"), done.stdout + done.stderr
    assert (sample.scores["run_score"].value["return"], outcome["closed"]) == (outcome["score"], "agent_ended")
