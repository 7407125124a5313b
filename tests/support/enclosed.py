"""Programs as agents at level bubblewrap: one turn on the toy, or a whole run on cartpole."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from evopolicygym.agents.base import make
from evopolicygym.core.agent import AgentConfig, AgentEnd, Turn, Workspace
from evopolicygym.core.errors import SandboxError
from evopolicygym.core.event import Event as RunEvent
from evopolicygym.core.run import RunState
from evopolicygym.sandbox.backends.bubblewrap import Backend
from fakes import OpenRun
from players import GOOD
from whole_runs import Told, config, played
from workspace_client import lay_client


def why_not() -> str:
    """Return why bubblewrap can't work here; empty where it can."""
    try:
        Backend().findings()
    except SandboxError as error:
        return str(error)
    return ""


needs_bubblewrap = pytest.mark.skipif(bool(why_not()), reason=why_not())


def desk(run: OpenRun) -> Workspace:
    """Return where a program works, with the desk's client laid in it."""
    lay_client(run.paths.workspace)
    return Workspace(run.paths.workspace, run.paths.transcript, 0, "bubblewrap")


def turn(run: OpenRun, *words: str, stop: Event | None = None, **options: int) -> Turn:
    """Play one turn of a program, under the limits that are given."""
    agent = make(AgentConfig("command", options=options, command=words))
    return agent.play(desk(run), run.door, stop or Event())


def printed(run: OpenRun, *words: str) -> str:
    """Return what a program prints that ends well."""
    ended = turn(run, *words)

    assert ended.end is AgentEnd.FINISHED, ended.message
    return run.paths.transcript.read_text(encoding="utf-8")


def python(run: OpenRun, script: str, *words: str) -> Any:
    """Return what a Python script prints as JSON."""
    return json.loads(printed(run, "python3", "-c", script, *words))


def stop_once_printed(run: OpenRun, word: str) -> Event:
    """Return a flag that is set as soon as a word stands in the transcript."""
    stop, pause = Event(), Event()

    def watch() -> None:
        for _ in range(1500):
            if run.paths.transcript.exists() and word in run.paths.transcript.read_text(encoding="utf-8"):
                break
            pause.wait(0.02)
        stop.set()

    Thread(target=watch, daemon=True).start()
    return stop


def played_by(
    runs: Path,
    *words: str,
    budget: int = 2,
    watch: Callable[[RunEvent, RunState], None] = lambda _event, _state: None,
) -> Told:
    """Play a whole run on cartpole whose agent is a program; a good policy is its second word, ``GOOD``."""
    asked = config(runs, budget=budget, isolation="bubblewrap")
    command = tuple(GOOD if word == "GOOD" else word for word in words)
    return played(replace(asked, agent=AgentConfig("command", command=command)), watch)


def command_lines() -> str:
    """Return the command lines of all processes of this machine."""
    found = []
    for entry in os.listdir("/proc"):  # noqa: PTH208 - of names that come and go
        if entry.isdigit():
            try:
                found.append(Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode("latin-1"))
            except OSError:
                continue
    return "\n".join(found)
