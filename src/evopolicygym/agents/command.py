"""The agent that is any program: started once in the workspace, it finds the judge by its environment.

How a program is kept in is not told here but in ``sandbox/workplace.py``.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from socket import socket
from threading import Event, Thread
from typing import BinaryIO

from evopolicygym.core.agent import Agent, AgentConfig, AgentEnd, AgentLimits, Desk, Door, Turn
from evopolicygym.core.errors import AgentError, SandboxError, UsageError
from evopolicygym.core.places import state_directory
from evopolicygym.sandbox.base import Level
from evopolicygym.sandbox.workplace import JUDGE_PORT, Occupant, enclosed, plain, preflight

GRACE_S = 5.0
"""Seconds that a program has between being asked to end and being killed."""
LOOK_S = 0.05
OUTPUT_BYTES = 64 << 20
"""The most that is kept of what a program prints."""
CUT = b"\n[what came after this was not kept]\n"
LAST_WORDS = 300


class CommandAgent:
    """Runs one program."""

    max_turns = 1

    def __init__(self, command: tuple[str, ...], limits: AgentLimits) -> None:
        self._command = command
        self._limits = limits

    def play(self, desk: Desk, door: Door, stop: Event) -> Turn:
        """Run the program until it ends, goes over a limit, or ``stop`` is set.

        Raises ``AgentError`` where it can't be started, ``SandboxError`` where it can't be ended.
        """
        try:
            found = self._looked_around(desk)
            occupant = self._started(desk, door)
        except SandboxError as error:
            raise AgentError(str(error)) from error
        over = ""
        with _transcribed(occupant, desk.transcript):
            try:
                while occupant.process.poll() is None and not over and not stop.wait(LOOK_S):
                    over = occupant.watch.over()
                ended_by_itself = occupant.process.poll() is not None
            finally:
                occupant.leave(0.0 if over else GRACE_S)
        found = {**found, **occupant.findings}
        if over:
            return Turn(AgentEnd.CRASHED, f"the program was ended: {over}", found)
        if not ended_by_itself:
            return Turn(AgentEnd.STOPPED, findings=found)
        if code := occupant.process.returncode:
            return Turn(AgentEnd.CRASHED, _last_words(code, desk.transcript), found)
        return Turn(AgentEnd.FINISHED, findings=found)

    def _looked_around(self, desk: Desk) -> Mapping[str, str]:
        """Return what the workplace's preflight found; empty at levels that hide nothing."""
        if desk.isolation != Level.BUBBLEWRAP:
            return {}
        return preflight(self._command, desk.workspace, [desk.workspace.parent, state_directory()])

    def _started(self, desk: Desk, door: Door) -> Occupant:
        def serve(listener: socket) -> dict[str, str]:
            return door.serve(listener).environment

        if desk.isolation != Level.BUBBLEWRAP:
            return plain(self._command, desk.workspace, door.endpoint.environment, self._limits)
        return enclosed(self._command, desk.workspace, {JUDGE_PORT: serve}, self._limits)


def make(config: AgentConfig) -> Agent:
    """Return the agent that runs the config's command, under the limits that the config's options name."""
    if not config.command:
        raise UsageError("The agent 'command' needs a program: evopolicygym run TASK -- PROGRAM [ARGUMENT …].")
    known = [field.name for field in fields(AgentLimits)]
    for name, amount in config.options.items():
        if name not in known or type(amount) is not int or amount < 1:
            raise UsageError(
                f"The agent 'command' can't be given {name} = {amount!r}; whole numbers from 1 for {', '.join(known)} "
                f"can be given."
            )
    return CommandAgent(config.command, AgentLimits(**config.options))


def _last_words(code: int, transcript: Path) -> str:
    with transcript.open("rb") as file:
        file.seek(max(0, transcript.stat().st_size - LAST_WORDS))
        words = " ".join(file.read().decode("utf-8", "replace").split())
    return f"the program ended with exit code {code}: {words or 'it printed nothing'}"


@contextmanager
def _transcribed(occupant: Occupant, transcript: Path) -> Iterator[None]:
    """Write what the program prints into its transcript, until it is gone."""
    output = occupant.process.stdout
    if output is None:
        raise AgentError("The agent's program was started without a pipe for its output.")
    transcript.parent.mkdir(parents=True, exist_ok=True)
    # Read by a thread that ends when every process of the program is gone, as nobody else holds the pipe.
    thread = Thread(target=_copy, args=(output.fileno(), transcript), name="transcript", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(GRACE_S)
        if not thread.is_alive():
            output.close()


def _copy(source: int, transcript: Path) -> None:
    with transcript.open("ab") as file:
        room = OUTPUT_BYTES - file.tell()
        while data := os.read(source, 1 << 16):
            room = _keep(file, data, room)


def _keep(file: BinaryIO, data: bytes, room: int) -> int:
    """Write what there is room for; return the room that is left, negative once the cut is marked."""
    if room < 0:
        return room
    file.write(data[:room])
    if len(data) > room:
        file.write(CUT)
        room = -1
    else:
        room -= len(data)
    file.flush()
    return room
