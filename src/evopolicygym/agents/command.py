"""The agent that is any program: started once in the workspace, it finds the judge by its environment.

How a program is kept in is not told here but in ``sandbox/workplace.py``.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from socket import create_server
from threading import Event, Thread
from typing import BinaryIO

from evopolicygym.agents.model_door.door import ModelDoor
from evopolicygym.agents.model_door.upstream import ModelUpstream
from evopolicygym.agents.model_door.wire import Wire
from evopolicygym.core.agent import Agent, AgentConfig, AgentEnd, AgentLimits, Desk, Door, Turn
from evopolicygym.core.errors import AgentError, SandboxError, UsageError
from evopolicygym.core.places import state_directory
from evopolicygym.sandbox.base import Level
from evopolicygym.sandbox.workplace import JUDGE_PORT, MODEL_PORT, Occupant, Serve, enclosed, plain, preflight

GRACE_S = 5.0
"""Seconds that a program has between being asked to end and being killed."""
LOOK_S = 0.05
OUTPUT_BYTES = 64 << 20
"""The most that is kept of what a program prints."""
CUT = b"\n[what came after this was not kept]\n"
LAST_WORDS = 300
MODEL_OPTIONS = ("model_url", "model_key", "model_wire")
"""Options of an agent's config that say where its model's door leads (``model_door.upstream.ModelUpstream``)."""


class CommandAgent:
    """Runs one program."""

    max_turns = 1

    def __init__(self, command: tuple[str, ...], limits: AgentLimits, upstream: ModelUpstream | None = None) -> None:
        self._command = command
        self._limits = limits
        self._upstream = upstream

    def play(self, desk: Desk, door: Door, stop: Event) -> Turn:
        """Run the program until it ends, goes over a limit, or ``stop`` is set.

        Raises ``AgentError`` where it can't be started, ``SandboxError`` where it can't be ended, and what its model's
        door raises where that can't be opened.
        """
        with ExitStack() as stack:
            model = stack.enter_context(ModelDoor(self._upstream, desk.model_log)) if self._upstream else None
            turn = self._play(desk, door, model, stop)
            return replace(turn, usage=asdict(model.usage())) if model else turn

    def _play(self, desk: Desk, door: Door, model: ModelDoor | None, stop: Event) -> Turn:
        try:
            found = self._looked_around(desk)
            occupant = self._started(desk, door, model)
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
            return Turn(AgentEnd.CRASHED, f"the program was ended: {over}", findings=found)
        if not ended_by_itself:
            return Turn(AgentEnd.STOPPED, findings=found)
        if code := occupant.process.returncode:
            return Turn(AgentEnd.CRASHED, _last_words(code, desk.transcript), findings=found)
        return Turn(AgentEnd.FINISHED, findings=found)

    def _looked_around(self, desk: Desk) -> Mapping[str, str]:
        """Return what the workplace's preflight found; empty at levels that hide nothing."""
        if desk.isolation != Level.BUBBLEWRAP:
            return {}
        return preflight(self._command, desk.workspace, [desk.workspace.parent, state_directory()])

    def _started(self, desk: Desk, door: Door, model: ModelDoor | None) -> Occupant:
        if desk.isolation != Level.BUBBLEWRAP:
            models = model.serve(create_server(("127.0.0.1", 0))).environment if model else {}
            return plain(self._command, desk.workspace, {**door.endpoint.environment, **models}, self._limits)
        doors: dict[int, Serve] = {JUDGE_PORT: lambda listener: door.serve(listener).environment}
        if model:
            doors[MODEL_PORT] = lambda listener: model.serve(listener).environment
        return enclosed(self._command, desk.workspace, doors, self._limits)


def make(config: AgentConfig) -> Agent:
    """Return the agent that runs the config's command, under the limits and with the model that its options name."""
    if not config.command:
        raise UsageError("The agent 'command' needs a program: evopolicygym run TASK -- PROGRAM [ARGUMENT …].")
    known = [field.name for field in fields(AgentLimits)]
    limits = {name: amount for name, amount in config.options.items() if name not in MODEL_OPTIONS}
    for name, amount in limits.items():
        if name not in known or type(amount) is not int or amount < 1:
            raise UsageError(
                f"The agent 'command' can't be given {name} = {amount!r}; whole numbers from 1 for {', '.join(known)} "
                f"can be given, and texts for {', '.join(MODEL_OPTIONS)}."
            )
    return CommandAgent(config.command, AgentLimits(**limits), upstream_of(config))


def upstream_of(config: AgentConfig) -> ModelUpstream | None:
    """Return where the model's door leads; None for an agent without one. Raises ``UsageError`` where it can't be."""
    url, key, wire = (str(config.options.get(name, "")) for name in MODEL_OPTIONS)
    if not url:
        if key or wire:
            raise UsageError("A model's key or wire format was given, and no address: give model_url (--model-url).")
        return None
    if wire and wire not in set(Wire):
        raise UsageError(f"There is no wire format {wire!r}; known are {', '.join(Wire)}.")
    upstream = ModelUpstream(url, key, Wire(wire or Wire.AUTO), (config.model,) if config.model else ())
    upstream.key()
    return upstream


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
