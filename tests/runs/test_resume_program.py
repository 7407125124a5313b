"""A run whose agent's program was moved or changed is resumed as its user says, and never by accident."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.agents.base import make
from evopolicygym.agents.kit.session import FunctionAgent
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import UsageError
from evopolicygym.core.event import AgentStarted, Event, RunResumed, SubmissionPublished
from evopolicygym.core.run import RunState
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.run_document import decode, document_text
from evopolicygym.records.verify import findings
from evopolicygym.runs.preflight import agent_sha256, check_program, program_sha256
from evopolicygym.runs.run import resume
from fakes import TIME, opening
from planned_records import lay

SMALL = {"validation": 1, "held_out": 1, "split": "public", "workers": 1}


def command(script: Path) -> AgentConfig:
    words = ("python3", str(script))
    return AgentConfig("command", command=words, program_sha256=program_sha256(words))


def interrupted(root: Path, agent: AgentConfig) -> Path:
    """Lay the record of a run that stopped while its agent played."""
    return lay(root, [opening(agent=agent, split=SplitSource.PUBLIC), AgentStarted(TIME, 0)])


def resume_record(root: Path) -> RunState:
    return resume(root, 1, lambda _paths, _state: None, lambda _event, _state: None, trusted=True)


def move(script: Path) -> None:
    script.rename(script.with_name("moved.py"))


def edit(script: Path) -> None:
    script.write_text("2")


@pytest.mark.parametrize("change", [move, edit])
def test_a_missing_or_changed_program_leaves_the_record_as_it_is(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """Nothing is scored with what the agent isn't: resuming is refused before an event is recorded."""
    script = tmp_path / "agent.py"
    script.write_text("1")
    root = interrupted(tmp_path / "run", command(script))
    before = RunPaths(root).journal.read_bytes()
    change(script)

    with pytest.raises(UsageError, match=r"agent\.py"):
        resume_record(root)
    assert RunPaths(root).journal.read_bytes() == before


def test_a_changed_program_that_is_allowed_is_named_by_its_hash(tmp_path: Path) -> None:
    """What is compared next time is the program that the run was resumed with."""
    script = tmp_path / "agent.py"
    script.write_text("1")
    agent = command(script)
    state = read_run(interrupted(tmp_path / "run", agent)).state
    script.write_text("2")
    here = program_sha256(agent.command)
    made = make(agent)

    assert check_program(tmp_path, state, made, allowed=True) == here
    again = replace(state, program_changes=(RunResumed(TIME, here),))
    assert check_program(tmp_path, again, made, allowed=False) == ""


def test_the_record_shows_a_changed_program(tmp_path: Path) -> None:
    """``run.json`` lists each change with its hash, and the audit names it."""
    opened = opening(agent=replace(command(tmp_path / "no.py"), program_sha256="a" * 64))
    changes = [RunResumed(TIME, "b" * 64), RunResumed(TIME), RunResumed(TIME, "c" * 64)]
    root = lay(tmp_path / "run", [opened, *changes])

    assert [one.program_sha256[0] for one in decode(document_text(RunPaths(root))).program_changes] == ["b", "c"]
    assert len([one for one in findings(root) if one.name == "agent's program"]) == 2


def test_a_changed_function_is_refused_and_then_recorded(tmp_path: Path) -> None:
    """A function is compared by its source: another one plays on only where its user says so."""

    def first(session: evopolicygym.Session) -> None:
        session.submit(episodes=1)
        session.submit(episodes=1)

    def second(session: evopolicygym.Session) -> None:
        session.submit(episodes=1)

    def stop(event: Event, _state: RunState) -> None:
        if isinstance(event, SubmissionPublished):
            raise KeyboardInterrupt

    with pytest.raises(evopolicygym.RunInterrupted) as interrupted:
        evopolicygym.run("cartpole", first, budget=2, runs=tmp_path / "runs", on_event=stop, **SMALL)
    root = interrupted.value.path
    with pytest.raises(UsageError, match="first"):
        evopolicygym.resume(root, agent=second, workers=1)
    run = evopolicygym.resume(root, agent=second, workers=1, allow_changed_program=True)

    assert [one.program_sha256 for one in read_run(run.path).state.program_changes] == [
        agent_sha256(AgentConfig("function"), FunctionAgent(second))
    ]
