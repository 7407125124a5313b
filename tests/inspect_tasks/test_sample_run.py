"""The run that a sample of Inspect's is, and its sandbox, without an evaluation around them. Needs bubblewrap."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from enclosed import needs_bubblewrap

pytest.importorskip("inspect_ai", reason="inspect-ai isn't installed; the extra 'inspect' brings it")

from inspect_ai._util.error import PrerequisiteError
from inspect_ai.model import ModelUsage
from inspect_ai.util._sandbox.environment import SandboxUnavailableError

from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.event import CloseReason
from evopolicygym.inspect_tasks.sample_run import RunSettings, SampleIdentity, SampleRun, sample_run
from evopolicygym.inspect_tasks.sandbox import RunSandbox, usage_of
from evopolicygym.inspect_tasks.tasks import TASKS
from evopolicygym.records.reader import read_run
from lifeline import Lifeline

pytestmark = needs_bubblewrap
WHO = SampleIdentity("task", "cartpole", 1, "react", "mockllm/model", "0")
LIMIT_S = 1
"""Seconds that a command has which runs for ten minutes."""
SMALL = RunSettings(budget=2, validation=1, held_out=1, split="public", workers=1)


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    return SMALL.model_copy(update={"runs": str(tmp_path)})


def path_of(played: SampleRun) -> Path:
    """Return where the record of a sample's run lies."""
    assert played.hosted is not None
    assert played.hosted.path is not None
    return played.hosted.path


@pytest.fixture
def played(settings: RunSettings) -> Iterator[SampleRun]:
    """Give the run of a sample, which is stopped where a test leaves it open."""
    played = sample_run(settings, "cartpole", WHO, dict)
    yield played
    played.leave()


def test_a_scored_run_is_found_again(settings: RunSettings, played: SampleRun) -> None:
    """A sample whose run was scored isn't played again; another epoch, or another task, is another run."""
    sandbox = RunSandbox(played)
    asyncio.run(sandbox.exec(["./judge", "submit", "0-1"]))
    scored = played.finish()
    again = sample_run(settings, "cartpole", WHO, dict)
    other = sample_run(settings, "cartpole", replace(WHO, epoch=2), dict)
    other.leave()

    assert (again.hosted, again.finish().path, again.resumed) == (None, scored.path, True)
    assert (other.resumed, other.hosted is None) == (False, False)
    assert [read_run(run).state.opened.seed for run in (scored.path, path_of(other))] == [0, 1]
    with pytest.raises(SandboxUnavailableError):
        asyncio.run(sandbox.exec(["true"]))
    with pytest.raises(SandboxUnavailableError):
        asyncio.run(RunSandbox(again).read_file("AGENTS.md"))


def test_another_try_goes_on_with_the_same_run(settings: RunSettings, played: SampleRun) -> None:
    """A sample that is tried again has what is left of its run's budget; left over, it is scored with what there is.

    With another budget or model it is refused, with what was found.
    """
    asyncio.run(RunSandbox(played).exec(["./judge", "submit", "0"]))
    played.leave()
    for others, who in ((settings.model_copy(update={"budget": 3}), WHO), (settings, replace(WHO, model="other/one"))):
        with pytest.raises(UsageError, match=r"\b2\b.*'mockllm/model'"):
            sample_run(others, "cartpole", who, dict)
    again = sample_run(settings, "cartpole", WHO, dict)
    scored = again.finish()
    state = read_run(scored.path).state

    assert (again.resumed, scored.path) == (True, path_of(played))
    assert (state.spent, len(state.submissions), scored.score is None) == (1, 1, False)
    assert state.close_reason is CloseReason.AGENT_ENDED


def test_a_command_that_is_not_waited_for_is_killed(played: SampleRun) -> None:
    """A command whose caller is cancelled, or whose time is up, is killed; others are executed at once beside it."""
    command = ["bash", "-c", "exec > lifeline; echo started; sleep 600 & sleep 600"]

    async def cancelled(lifeline: Lifeline) -> None:
        sandbox = RunSandbox(played)
        slow = asyncio.create_task(sandbox.exec(command))
        await asyncio.to_thread(lifeline.wait_for_line)
        assert (await sandbox.exec(["true"])).success
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        await asyncio.to_thread(lifeline.wait_for_end)
        with pytest.raises(TimeoutError):
            await sandbox.exec(["sleep", "600"], timeout=LIMIT_S)

    with Lifeline(path_of(played) / "workspace" / "lifeline") as lifeline:
        asyncio.run(cancelled(lifeline))


def test_the_sandbox_belongs_to_runs() -> None:
    """A task that begins no run is told what works."""
    with pytest.raises(PrerequisiteError, match="inspect eval"):
        asyncio.run(RunSandbox.sample_init("theirs", None, {"__sample_id__": 1}))


def test_usage() -> None:
    """What a record says of tokens has cached ones in the input, as the model proxy counts, and all models together."""
    one = ModelUsage(input_tokens=10, output_tokens=5, input_tokens_cache_read=100, reasoning_tokens=3, total_cost=0.5)
    other = ModelUsage(input_tokens=1, output_tokens=1)

    assert usage_of({"one": one, "other": other}) == {
        "input": 111, "cached_input": 100, "output": 6, "reasoning": 3, "cost": 0.5,
    }  # fmt: skip


def test_tasks() -> None:
    """Suites and environments are tasks; a task has a sample for each environment, or for those that are named."""
    one, two = TASKS["core16"](), TASKS["core16"](environment=["acrobot", "parking"])

    assert len(one.dataset) == 16
    assert [sample.id for sample in two.dataset] == ["acrobot", "parking"]
    assert [sample.id for sample in TASKS["acrobot"]().dataset] == ["acrobot"]
    with pytest.raises(UnknownName, match="no-such"):
        TASKS["core16"](environment="no-such")
