"""An agent's program that is killed from outside: the run pauses, and is resumed; one that ends by itself has ended."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

import evopolicygym
from enclosed import needs_bubblewrap
from evopolicygym.agents.kit import acp_client
from evopolicygym.agents.kit.outside_agent import TurnOver
from evopolicygym.agents.kit.scripted_model.server import ScriptedModel
from evopolicygym.api.play.serve import host
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.errors import AgentError
from evopolicygym.core.event import AgentEnded
from evopolicygym.core.run import Stage
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_runs, read_run
from evopolicygym.sandbox.program.standing import WorkplaceLost
from model_proxies import REAL_KEY, VARIABLE
from neutral_models import agent, calling
from whole_runs import config, events, played

LEVELS = ["bubblewrap", pytest.param("process", marks=pytest.mark.nightly)]
ONCE = "test -e notes/seen || {{ touch notes/seen; {}; }}; ./judge submit 0-1"
"""Does something in the first turn, and submits in the next."""


def ends(root: Path) -> list[str]:
    """Return how the turns of a run ended."""
    return [event.end for event in events(RunPaths(root)) if isinstance(event, AgentEnded)]


def play(place: Path, script: str, isolation: str) -> None:
    """Play a run whose agent is a shell script."""
    asked = config(place, budget=2, isolation=isolation)
    played(replace(asked, agent=AgentConfig("command", command=("sh", "-c", script))))


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_a_program_that_is_killed_pauses_the_run(tmp_path: Path, isolation: str, number: signal.Signals) -> None:
    """The run stops with exit code 5 and says by which signal; resumed, it is scored."""
    with pytest.raises(AgentError, match=number.name) as caught:
        play(tmp_path, ONCE.format(f"kill -{number} $$"), isolation)
    (root,) = find_runs(tmp_path)
    stage = read_run(root).state.stage
    run = evopolicygym.resume(root)

    assert (caught.value.exit_code, stage, run.score is None) == (5, Stage.OPEN, False)
    assert ends(root) == ["killed", "finished"]


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("script", ["exit 137", pytest.param("kill -SEGV $$", marks=pytest.mark.nightly)])
def test_a_program_that_ends_by_itself_has_ended(tmp_path: Path, isolation: str, script: str) -> None:
    """The exit code that a shell gives for a signal is no signal, and a fault is the program's own."""
    play(tmp_path, script, isolation)
    (root,) = find_runs(tmp_path)

    assert ends(root) == ["crashed"]
    assert read_run(root).state.stage is Stage.FINISHED


HANGS = "touch /workspace/notes/hangs; sleep 1000"
"""What an agent does until its sandbox is killed."""


def children(parent: int) -> Iterator[int]:
    """Yield the children of a process."""
    for task in Path(f"/proc/{parent}/task").iterdir():
        with suppress(OSError):  # it has ended
            yield from map(int, (task / "children").read_text().split())


def sandboxes() -> Iterator[int]:
    """Yield the processes of bwrap that this process started."""
    for child in children(os.getpid()):
        with suppress(OSError):
            if Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"bwrap\0"):
                yield child


@contextmanager
def killed_sandbox(place: Path, *, bwrap: bool = False) -> Iterator[None]:
    """Kill the sandbox of the agent's program once it hangs: its first process, or bwrap, which waits for that."""
    done = Event()

    def kill() -> None:
        while not done.wait(0.01):
            if list(place.rglob("notes/hangs")):
                for sandbox in sandboxes():
                    os.kill(sandbox if bwrap else next(children(sandbox)), signal.SIGKILL)
                    return

    thread = Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@needs_bubblewrap
@pytest.mark.parametrize("bwrap", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_a_program_whose_sandbox_is_killed(tmp_path: Path, bwrap: bool) -> None:  # noqa: FBT001 - a table's column
    """A sandbox that is killed takes its program along, which pauses the run."""
    with killed_sandbox(tmp_path, bwrap=bwrap), pytest.raises(AgentError, match="SIGKILL"):
        play(tmp_path, HANGS, "bubblewrap")
    (root,) = find_runs(tmp_path)

    assert (ends(root), read_run(root).state.stage) == (["killed"], Stage.OPEN)


@needs_bubblewrap
def test_a_model_whose_sandbox_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of the reference harness loses nothing when the sandbox of its commands is killed: the run pauses."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    with ScriptedModel() as model, killed_sandbox(tmp_path):
        model.replies += [calling(ApiFormat.CHAT, "./judge submit 0"), calling(ApiFormat.CHAT, HANGS)]
        with pytest.raises(AgentError, match="SIGKILL"):
            played(replace(config(tmp_path, budget=2, isolation="bubblewrap"), agent=agent(model, ApiFormat.CHAT)))
    (root,) = find_runs(tmp_path)

    assert (ends(root), read_run(root).state.spent) == (["killed"], 1)


@needs_bubblewrap
def test_a_hosted_agent_whose_sandbox_is_killed(tmp_path: Path) -> None:
    """A run that another harness drives pauses when the sandbox of its commands is killed."""
    run = host("cartpole", "inspect_ai", {}, dict, runs=tmp_path, budget=1, split="public", isolation="bubblewrap")
    with killed_sandbox(tmp_path), pytest.raises(WorkplaceLost):
        run.workplace.execute(["bash", "-c", HANGS])
    with pytest.raises(TurnOver, match="SIGKILL"):
        run.workplace.execute(["true"])
    with pytest.raises(AgentError, match="SIGKILL"):
        run.finish()
    (root,) = find_runs(tmp_path)

    assert (ends(root), read_run(root).state.stage) == (["killed"], Stage.OPEN)


def test_a_tool_that_is_killed(tmp_path: Path) -> None:
    """A client of the Agent Client Protocol ends by the signal by which its tool ended, and not by its exit code."""
    client = [sys.executable, acp_client.__file__, "prompt", "", ""]
    ended = [
        subprocess.run([*client, "sh", "-c", script], capture_output=True, check=False, cwd=tmp_path).returncode
        for script in ("kill -KILL $$", "kill -TERM $$", "exit 137")
    ]

    assert ended == [-signal.SIGKILL, -signal.SIGTERM, 1]
