"""What run and show tell of a run that didn't go well: its agent's end, its policy's failures, what to do next."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.core.agent import OUTSIDE, AgentConfig
from evopolicygym.core.event import (
    AgentEnded,
    AgentStarted,
    CheckpointSelected,
    CloseReason,
    EpisodePlayed,
    Event,
    RunClosed,
    RunFinished,
    RunStatus,
    RunStopped,
    StopReason,
)
from evopolicygym.core.rollout import Failure, FailureReason
from evopolicygym.core.submission import LoadError, SubmissionStatus
from evopolicygym.core.task import BudgetRule
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.writer import RunWriter
from fakes import TIME, charged, held_out, opening, published, submitted, task, validated, whole_run
from shell import Shell

SMALL = ("--validation", 1, "--held-out", 2, "--workers", 1, "--isolation", "process")
CRASHING = "raise RuntimeError('no plan')"
FAILING = """\
class Policy:
    def __init__(self, obs_space, action_space, env_meta): pass
    def reset(self, episode_index): pass
    def act(self, obs): raise ValueError("no act")
"""


def plain(text: str) -> str:
    return " ".join(text.split())


def recorded(root: Path, events: list[Event]) -> Path:
    """Write a run's record and return where it lies."""
    with RunWriter(root, events[0]) as writer:  # type: ignore[arg-type]
        for event in events[1:]:
            writer.record(event)
        writer.write_document()
    return root


def failed(event: EpisodePlayed, message: str) -> EpisodePlayed:
    """Return an episode in which the policy failed."""
    return replace(event, episode=replace(event.episode, failure=Failure(FailureReason.ERROR, message)))


def turn(end: str, message: str = "") -> list[Event]:
    """Return a turn of the agent."""
    return [AgentStarted(TIME, 0), AgentEnded(TIME, 0, end, message)]


def unscored() -> list[Event]:
    """Return the end of a run in which nothing could be played."""
    return [RunClosed(TIME, CloseReason.AGENT_ENDED), RunFinished(TIME, RunStatus.NO_OK_SUBMIT)]


# The agent's end


def test_an_agent_that_crashes_is_told(shell: Shell, tmp_path: Path) -> None:
    """Run and show tell how the agent ended, what is unspent and why, and where its words are; the exit code is 0."""
    program = tmp_path / "crash.py"
    program.write_text(CRASHING, encoding="utf-8")
    left = shell("run", "cartpole", "--budget", 8, *SMALL, "--runs", tmp_path / "runs", "--", "python3", program)
    (log,) = (tmp_path / "runs").rglob("agent.log")
    shown = shell("show", log.parent.parent)

    for one in (left, shown):
        assert one.code == 0
        assert "no score" in one.out
        assert re.search(r"crashed: .*exit code 1\b", plain(one.out))
        assert "RuntimeError: no plan" in one.out
        assert "8 of 8 episodes" in one.out
        assert "agent_ended" in one.out
        assert f"log     {log}" in one.out
    assert "crashed: " in plain(left.out).rstrip().splitlines()[-1]  # what is to be done is what is read last


def test_an_agent_that_ends_badly_is_told_beside_its_score(shell: Shell, tmp_path: Path) -> None:
    """A score doesn't hide that its agent died on the way, nor in which way the run closed."""
    whole = whole_run()
    closed = next(place for place, event in enumerate(whole) if isinstance(event, RunClosed))
    events: list[Event] = [
        *(opening(task=task(budget=BudgetRule(64))), AgentStarted(TIME, 0), *whole[1:closed]),
        *(AgentEnded(TIME, 0, "crashed", "ValueError: \x1b[31mno"), RunClosed(TIME, CloseReason.AGENT_ENDED)),
        *whole[closed + 1 :],
    ]
    told = shell.printed("show", recorded(tmp_path / "run", events))

    assert "held-out score" in told
    assert "crashed: ValueError: \\x1b[31mno" in told
    assert "56 of 64 episodes" in told
    assert "agent_ended" in told
    assert "log " not in told


def test_an_agent_that_ends_well_is_not_told(shell: Shell, tmp_path: Path) -> None:
    """Where nothing is amiss, nothing is said of the agent, its log or the policy."""
    events: list[Event] = [opening(), *turn("finished", "all went well"), *whole_run()[1:]]
    told = shell.printed("show", recorded(tmp_path / "run", events))

    assert not any(line.startswith(("agent ", "policy ", "log ", "stopped ")) for line in told.splitlines())


# The policy's failures


def test_a_policy_that_always_fails_is_told(shell: Shell, tmp_path: Path) -> None:
    """A score that is the failures' alone says so: in a run's lines, at its end, in show, and in the document."""
    project = tmp_path / "bad"
    project.mkdir()
    (project / "policy.py").write_text(FAILING, encoding="utf-8")
    given = ("cartpole", "--agent", "policy", "--option", f"project={project}", "--budget", 2)
    left = shell("run", *given, *SMALL, "--runs", tmp_path / "runs")
    (document,) = (tmp_path / "runs").rglob("run.json")
    shown = shell.printed("show", document.parent)

    for text in (left.err, shown):
        assert re.search(r"submission 0: 2 of 2 episodes .*ValueError: no act", text)
    for text in (left.out, shown):
        assert re.search(r"2 of 2 held-out episodes .*ValueError: no act", text)
    assert json.loads(document.read_text(encoding="utf-8"))["outcome"]["held_out_failures"] == 2
    assert shell.json("show", document.parent)["outcome"]["held_out_failures"] == 2
    assert shell("verify", document.parent).code == 0


def test_failures_of_several_kinds(shell: Shell, tmp_path: Path) -> None:
    """Of failures that differ, the most frequent is told, with how often it is met."""
    scored = held_out("a", [1.0, 2.0, 3.0])
    scored = [failed(event, message) for event, message in zip(scored, ("a", "b", "b"), strict=True)]
    chosen = CheckpointSelected(TIME, 0, "a", 1.0)
    closed = RunClosed(TIME, CloseReason.AGENT_ENDED)
    ended = RunFinished(TIME, RunStatus.SCORED, 2.0, 0.5773502691896257)
    events: list[Event] = [opening(), *submitted(0, [1.0]), closed, *validated("a", [1.0, 1.0]), chosen, *scored, ended]
    told = shell.printed("show", recorded(tmp_path / "run", events))

    assert re.search(r"3 of 3 held-out episodes .*\b2 .*error: b", told)


def test_a_record_without_failures_counts_none(tmp_path: Path) -> None:
    """The document of a run in which nothing failed says so."""
    root = recorded(tmp_path / "run", whole_run())

    assert json.loads(RunPaths(root).document.read_text(encoding="utf-8"))["outcome"]["held_out_failures"] == 0


@pytest.mark.parametrize("status", [SubmissionStatus.INIT_ERROR, SubmissionStatus.IMPORT_ERROR])
def test_a_policy_that_does_not_load_is_told(shell: Shell, tmp_path: Path, status: SubmissionStatus) -> None:
    """Show gives the reason of each submission that didn't load, in a line."""
    refused = replace(published(0, status), error=LoadError(status, "ValueError: no room\nfor a second line"))
    whole: list[Event] = [opening(), charged(0), refused, *unscored()]
    told = shell.printed("show", recorded(tmp_path / "run", whole))

    assert told.count(f"{status}: ValueError: no room\n") == 2
    assert "second line" not in told


# What is next


def next_lines(text: str) -> list[str]:
    return [line.split()[2] for line in text.splitlines() if line.startswith("next ")]


def test_what_is_next_of_an_interrupted_run(shell: Shell, tmp_path: Path) -> None:
    """A run that was put down is to be resumed; the reason is told."""
    stopped = RunStopped(TIME, StopReason.AGENT, "AgentError: it is not found in the sandbox")
    root = recorded(tmp_path / "run", [opening(), stopped])
    told = shell.printed("show", root)

    assert next_lines(told) == ["resume"]
    assert f"evopolicygym resume {root}" in told
    assert "agent_error" in told
    assert "it is not found in the sandbox" in told


def test_what_is_next_of_an_interrupted_run_whose_agent_is_outside(shell: Shell, tmp_path: Path) -> None:
    """It is resumed by the verb that resumes every run."""
    first = replace(opening(), agent=AgentConfig(name=OUTSIDE))
    root = recorded(tmp_path / "run", [first, RunStopped(TIME, StopReason.INTERRUPTED)])

    assert f"evopolicygym resume {root}" in shell.printed("show", root)


def test_what_is_next_of_a_finished_run(shell: Shell, tmp_path: Path) -> None:
    """Show doesn't send to show, and only a score is played again."""
    none: list[Event] = [opening(), *unscored()]
    with_score, without = (
        shell.printed("show", recorded(tmp_path / name, events))
        for name, events in (("scored", whole_run()), ("unscored", none))
    )

    assert "verify --replay" in with_score
    assert "--replay" not in without
    assert next_lines(with_score) == next_lines(without) == ["verify"]


# An agent's name where a program stands


@pytest.mark.parametrize("words", [("random",), ("--", "random"), ("tuner", "x")])
def test_an_agents_name_is_no_program(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """An agent's name where a program is expected is refused before anything is opened."""
    monkeypatch.chdir(tmp_path)
    left = shell("run", "cartpole", *words)

    assert (left.code, left.out) == (2, "")
    assert f"--agent {words[-1] if words[-1] != 'x' else 'tuner'}" in plain(left.err)
    assert list(tmp_path.glob("runs")) == []


def test_a_program_may_be_called_as_an_agent_is(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of yours that bears an agent's name is played."""
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "random"
    program.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    program.chmod(0o755)
    left = shell("run", "cartpole", "--budget", 2, *SMALL, "--", "random")

    assert left.code == 0
    assert "exit code 3" in plain(left.out)


# Messages


def test_a_key_that_is_not_set_names_the_option(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key's variable that is not set is told with the option and the field that name another."""
    monkeypatch.chdir(tmp_path)
    left = shell("run", "cartpole", "--model-url", "http://127.0.0.1:9", "--model-key", "NOPE", "--", "true")

    assert left.code == 2
    assert "--model-key" in plain(left.err)
    assert "model_key" in plain(left.err)


@pytest.mark.parametrize(
    ("option", "written"), [("--agent", "package.module:make"), ("--executor", "package.module:Class")]
)
def test_a_name_from_outside_is_told_as_the_help_tells_it(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, written: str
) -> None:
    """What can't be loaded is told with how such a name is written, in the words of the help."""
    monkeypatch.chdir(tmp_path)
    left = shell("run", "cartpole", option, "no_such_package:thing", "--runs", tmp_path)

    assert left.code == 2
    assert written in plain(left.err)
