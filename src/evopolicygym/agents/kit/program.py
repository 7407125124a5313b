"""One start of an agent's program in its workplace: watched, its output kept, and gone when this is over.

How a program is kept in is described in ``sandbox/program/workplace.py``; what its end means is for the agents to say.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import create_server
from threading import Event, Thread
from typing import BinaryIO

from evopolicygym.core import regular_file
from evopolicygym.core.agent import AgentLimits, Desk, Door
from evopolicygym.core.errors import AgentError, SandboxError
from evopolicygym.core.places import state_directory
from evopolicygym.model_proxy.proxy import ModelDoor
from evopolicygym.model_proxy.upstream import ModelEndpoint
from evopolicygym.sandbox.base import Level, level_of
from evopolicygym.sandbox.program.workplace import JUDGE_PORT, MODEL_PORT, Occupant, Serve, enclosed, plain, preflight

GRACE_S = 5.0
"""Seconds that a program has between being asked to end and being killed."""
LOOK_S = 0.05
OUTPUT_BYTES = 64 << 20
"""The most that is kept of what a run's programs print."""
CUT = b"\n[what came after this was not kept]\n"
LAST_WORDS = 300


@dataclass(frozen=True, slots=True)
class Launch:
    """What is started, and in what."""

    command: tuple[str, ...]
    limits: AgentLimits
    home: Path | None = None
    """A directory of this machine that is its home; None for a home that is gone with the program."""
    equip: Callable[[ModelEndpoint], Mapping[str, str]] = lambda endpoint: endpoint.environment
    """Told where the model answers before the program starts; returns the environment variables that tell of it."""
    hear: Callable[[bytes], None] = lambda _data: None
    """Told what the program prints, as it comes, by a thread of its own."""
    over: Callable[[], str] = lambda: ""
    """Asked a few times a second; a sentence that it returns ends the program."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a start ended."""

    findings: Mapping[str, str]
    """What was found to keep the program in, by name."""
    code: int | None = None
    """Its exit code; None where it was ended from outside."""
    limit: str = ""
    """The limit that it passed, in a sentence."""
    over: str = ""
    """What ``Launch.over`` said."""


def run(launch: Launch, desk: Desk, door: Door, model: ModelDoor | None, stop: Event) -> Ended:
    """Run a program until it ends, goes over a limit, or ``stop`` is set.

    Raises ``AgentError`` where it can't be started and ``SandboxError`` where it can't be ended.
    """
    try:
        found = _looked_around(launch, desk)
        occupant = _started(launch, desk, door, model)
    except SandboxError as error:
        raise AgentError(str(error)) from error
    limit = over = ""
    with _transcribed(occupant, desk.transcript, launch.hear):
        try:
            while occupant.process.poll() is None and not limit and not over and not stop.wait(LOOK_S):
                limit = occupant.watch.over()
                over = launch.over()
            ended_by_itself = occupant.process.poll() is not None
        finally:
            occupant.leave(0.0 if limit else GRACE_S)
    code = occupant.process.returncode if ended_by_itself else None
    return Ended({**found, **occupant.findings}, code, limit, over)


def last_words(code: int, transcript: Path) -> str:
    """Return in a sentence with which exit code a program ended, and what it printed last."""
    with regular_file.reader(transcript) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_WORDS))
        words = " ".join(file.read().decode("utf-8", "replace").split())
    return f"the program ended with exit code {code}: {words or 'it printed nothing'}"


def _looked_around(launch: Launch, desk: Desk) -> Mapping[str, str]:
    """Return what the workplace's preflight found; empty at levels that hide nothing."""
    if level_of(desk.isolation) is not Level.BUBBLEWRAP:
        return {}
    hidden = [desk.workspace.parent, state_directory()]
    return preflight(launch.command, desk.workspace, hidden, desk.simulators, desk.policy_packages)


def _started(launch: Launch, desk: Desk, door: Door, model: ModelDoor | None) -> Occupant:
    command, limits, home = launch.command, launch.limits, launch.home
    if level_of(desk.isolation) is not Level.BUBBLEWRAP:
        models = launch.equip(model.serve(create_server(("127.0.0.1", 0)))) if model else {}
        confined = level_of(desk.isolation) is Level.PROCESS
        environment = {**door.endpoint.environment, **models}
        return plain(command, desk.workspace, environment, limits, home, confined=confined)
    doors: dict[int, Serve] = {JUDGE_PORT: lambda listener: door.serve(listener).environment}
    if model:
        doors[MODEL_PORT] = lambda listener: launch.equip(model.serve(listener))
    return enclosed(command, desk.workspace, doors, limits, home, desk.simulators, desk.policy_packages)


@contextmanager
def _transcribed(occupant: Occupant, transcript: Path, hear: Callable[[bytes], None]) -> Iterator[None]:
    """Write what the program prints into its transcript, until it is gone."""
    output = occupant.process.stdout
    if output is None:
        raise AgentError("The agent's program was started without a pipe for its output.")
    transcript.parent.mkdir(parents=True, exist_ok=True)
    # Read by a thread that ends when every process of the program is gone, as nobody else holds the pipe.
    thread = Thread(target=_copy, args=(output.fileno(), transcript, hear), name="transcript", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(GRACE_S)
        if not thread.is_alive():
            output.close()


def _copy(source: int, transcript: Path, hear: Callable[[bytes], None]) -> None:
    with regular_file.appender(transcript) as file:
        room = OUTPUT_BYTES - file.tell()
        while data := os.read(source, 1 << 16):
            room = _keep(file, data, room)
            hear(data)


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
