"""A workplace that stays: commands are executed in it, one after another or at once, while its caller goes on.

    with StandingWorkplace(program_sandbox(isolation), program, endpoints) as workplace:
        done = workplace.execute(["bash", "-c", "./judge info"], limit_s=60.0)  # waits; what is printed is kept
        shell = workplace.start(["bash"], hear=show, terminal=Terminal(24, 80))  # a shell for a person
        shell.send(b"ls ")
        shell.wait()

What the commands share is what one program of an agent's would have: ``/workspace``, a home, ``/tmp``, the judge's
address, the limits, and all of them are gone when the workplace is left. ``agents/kit/program.py`` opens the one
of a run's agent. ``inside/execute.py`` starts commands inside.
"""

import base64
import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from evopolicygym.core import strict_json
from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.base import Program, ProgramSandbox, RunningProgram, Serve

EXECUTE_PORT = 8702
"""Where commands come from, inside a sandbox that has a network of its own."""
EXECUTE_VARIABLE = "EVOPOLICYGYM_EXECUTE"
CONNECT_S = 30.0
SEND_S = 30
"""Seconds after which a workplace that takes nothing counts as lost."""
LONGEST_LINE = 1 << 20
CHUNK = 256 << 10
"""The most bytes of input in one line."""
MOST_BYTES = 10 << 20
"""What is kept of each stream, unless another amount is given."""
STDOUT, STDERR = "stdout", "stderr"
Hear = Callable[[str, bytes], object]
"""Called with what a command prints as it comes: ``stdout`` or ``stderr``, and the bytes. It holds up all commands."""


class Terminal(NamedTuple):
    """The size of the terminal that a command gets in place of pipes; what it prints is then all ``stdout``."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Execution:
    """How a command went that was waited for."""

    code: int
    """Its exit code; of one that a signal ended, 128 and the signal's number, as in a shell."""
    stdout: bytes
    stderr: bytes
    cut: frozenset[str] = frozenset()
    """The streams of which only the beginning is kept; the command was killed then."""


@dataclass(slots=True)
class Printed:
    """What a command prints, up to so many bytes of each stream."""

    most_bytes: int
    kept: dict[str, bytearray] = field(default_factory=lambda: {STDOUT: bytearray(), STDERR: bytearray()})
    cut: set[str] = field(default_factory=set)
    full: Callable[[], object] = lambda: None
    """Called when a stream prints more than is kept."""

    def hear(self, stream: str, data: bytes) -> None:
        """Keep what there is room for."""
        room = self.most_bytes - len(self.kept[stream])
        self.kept[stream] += data[:room]
        if len(data) > room and stream not in self.cut:
            self.cut.add(stream)
            self.full()

    def execution(self, code: int) -> Execution:
        """Return how the command went that printed this."""
        return Execution(code, bytes(self.kept[STDOUT]), bytes(self.kept[STDERR]), frozenset(self.cut))


class WorkplaceLost(SandboxError):
    """What runs the commands of a workplace is gone, such as by a command that killed it; the workplace is over."""


class RunningCommand:
    """A command that was started in a workplace. What it prints is heard by whom ``start`` was given."""

    def __init__(self, number: int, say: Callable[[Mapping[str, Any]], None], hear: Hear) -> None:
        self.end: Future[int] = Future()
        """Its exit code, once it is over; an ``OSError`` where it can't be started, or ``WorkplaceLost``."""
        self.hear = hear
        self._number, self._say = number, say

    def send(self, data: bytes) -> None:
        """Have it read this from its input or its terminal; nothing where it is over."""
        for first in range(0, len(data), CHUNK):
            self._do("input", data=base64.b64encode(data[first : first + CHUNK]).decode())

    def end_input(self) -> None:
        """Let it read nothing more."""
        self._do("end_input")

    def resize(self, terminal: Terminal) -> None:
        """Tell its terminal how large it is now."""
        self._do("resize", terminal=terminal)

    def kill(self) -> None:
        """Kill it with all of its session; what it moved to another one goes on."""
        self._do("kill")

    def wait(self, limit_s: float | None = None) -> int:
        """Return its exit code once it is over; of one that a signal ended, 128 and the signal's number.

        Raises ``TimeoutError`` where it isn't over in time (it goes on), ``FileNotFoundError``, ``PermissionError``
        or another ``OSError`` where it can't be started, and ``WorkplaceLost``.
        """
        return self.end.result(limit_s)

    def _do(self, do: str, **fields: object) -> None:
        if not self.end.done():
            self._say({"do": do, "number": self._number, **fields})


class StandingWorkplace:
    """A place where an agent's program could work, in which commands are executed instead.

    Commands may be started by any thread. Nothing of them is left when the workplace is.
    """

    def __init__(
        self,
        sandbox: ProgramSandbox,
        program: Program,
        endpoints: Mapping[int, Serve] = MappingProxyType({}),
        hidden: Sequence[Path] = (),
    ) -> None:
        """Have it be the workplace of ``program``, with endpoints by their ports inside.

        The program is looked for, and not started. Entering raises ``SandboxError`` where it isn't there, where a path
        of ``hidden`` could be seen, or where the workplace can't be made.
        """
        self._sandbox, self._program, self._endpoints, self._hidden = sandbox, program, endpoints, hidden
        self._found: Mapping[str, str] = {}
        self._running: RunningProgram | None = None
        self._channel: socket.socket | None = None
        self._commands: dict[int, RunningCommand] = {}
        self._numbers, self._lock = count(), threading.Lock()
        self._lost = threading.Event()
        self._listener: threading.Thread | None = None

    def __enter__(self) -> Self:
        listening: list[socket.socket] = []

        def serve(listener: socket.socket) -> Mapping[str, str]:
            listening.append(listener)
            host, port = listener.getsockname()
            return {EXECUTE_VARIABLE: f"{host}:{port}"}

        script = (files("evopolicygym.sandbox.program") / "inside" / "execute.py").read_text(encoding="utf-8")
        # What the program's command names is seen inside as if it were started; nobody reads these arguments.
        command = (self._sandbox.python, "-I", "-c", script, *self._program.command)
        program = replace(self._program, command=command)
        self._found = self._sandbox.preflight(self._program, self._hidden)
        try:
            self._running = self._sandbox.start(program, {**self._endpoints, EXECUTE_PORT: serve})
            listening[0].settimeout(CONNECT_S)
            self._channel, _ = listening[0].accept()  # the only one: before any command could connect
        except OSError as error:
            self._leave()
            raise SandboxError(f"No commands can be executed in the workplace: {error}") from error
        finally:
            for listener in listening:
                listener.close()
        self._channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_S, 0))
        self._listener = threading.Thread(target=self._listen, args=(self._channel,), name="workplace", daemon=True)
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    @property
    def python(self) -> str:
        """How a command calls a Python."""
        return self._sandbox.python

    @property
    def findings(self) -> Mapping[str, str]:
        """What was found to keep the commands in, by name."""
        return {**self._found, **(self._running.findings if self._running else {})}

    @property
    def lost(self) -> bool:
        """Whether it is over: every further command would raise ``WorkplaceLost``."""
        return self._lost.is_set()

    def limit_exceeded(self) -> str:
        """Return in a sentence which limit the commands passed together; empty where none. Ask a few times a second."""
        return self._running.limit_exceeded() if self._running else ""

    def start(
        self,
        command: Sequence[str],
        hear: Hear = lambda _stream, _data: None,
        *,
        directory: str = "",
        environment: Mapping[str, str] | None = None,
        terminal: Terminal | None = None,
    ) -> RunningCommand:
        """Start a command; it runs beside others.

        Args:
            command: The program, looked for on the workplace's ``PATH``, and its arguments; no shell is between.
            hear: Called with what it prints, as it comes.
            directory: Where it runs; relative to ``/workspace``, which is also the default.
            environment: Variables besides those of the workplace.
            terminal: The size of the terminal that it gets; None for pipes.

        Raises ``WorkplaceLost``. That it can't be started is said by its ``wait``.
        """
        with self._lock:
            number = next(self._numbers)
            started = RunningCommand(number, self._say, hear)
            self._commands[number] = started
        try:
            self._say(
                {
                    "do": "start",
                    "number": number,
                    "command": list(command),
                    "directory": directory,
                    "environment": dict(environment or {}),
                    "terminal": terminal,
                }
            )
        except WorkplaceLost:
            self._commands.pop(number, None)
            raise
        return started

    def execute(
        self,
        command: Sequence[str],
        data: bytes = b"",
        *,
        directory: str = "",
        environment: Mapping[str, str] | None = None,
        limit_s: float | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> Execution:
        """Execute a command that reads ``data`` and return how it went, with so many bytes of each stream.

        Raises ``TimeoutError`` where it isn't over in time, with all of its session killed, ``OSError`` where it can't
        be started, and ``WorkplaceLost``.
        """
        running, printed = self.begin(
            command, data, directory=directory, environment=environment, most_bytes=most_bytes
        )
        try:
            return printed.execution(running.wait(limit_s))
        except BaseException:
            with suppress(WorkplaceLost):
                running.kill()
            raise

    def begin(
        self,
        command: Sequence[str],
        data: bytes = b"",
        *,
        directory: str = "",
        environment: Mapping[str, str] | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> tuple[RunningCommand, Printed]:
        """Begin what ``execute`` does, and return the command and what it prints, for who waits in another way."""
        printed = Printed(most_bytes)
        running = self.start(command, printed.hear, directory=directory, environment=environment)
        printed.full = running.kill
        if printed.cut:  # already
            running.kill()
        running.send(data)
        running.end_input()
        return running, printed

    def _say(self, line: Mapping[str, Any]) -> None:
        data = json.dumps(line).encode() + b"\n"
        with self._lock:
            if self._channel is not None and not self.lost:
                try:
                    self._channel.sendall(data)
                except OSError:
                    self._lost.set()
                else:
                    return
        raise WorkplaceLost("The workplace is gone, with all that ran in it.")

    def _listen(self, channel: socket.socket) -> None:
        """Pass on what the commands print, until the workplace is over. What says it may be anybody inside by now."""
        with suppress(OSError, ValueError, KeyError, TypeError), channel.makefile("rb") as lines:
            while (line := lines.readline(LONGEST_LINE)).endswith(b"\n"):
                self._take(strict_json.decode(line))
        self._lost.set()
        for command in list(self._commands.values()):
            if not command.end.done():
                command.end.set_exception(WorkplaceLost("The workplace is gone, and the command with it."))
        self._commands.clear()

    def _take(self, said: Mapping[str, Any]) -> None:
        command = self._commands.get(said["number"])
        if command is None:
            return
        if "stream" in said:
            stream = STDERR if said["stream"] == STDERR else STDOUT
            command.hear(stream, base64.b64decode(said["data"], validate=True))
            return
        self._commands.pop(said["number"])
        if "end" in said:
            command.end.set_result(int(said["end"]))
        else:
            command.end.set_exception(OSError(int(said["refused"]), str(said["reason"]), said["file"]))

    def _leave(self) -> None:
        self._lost.set()
        running, self._running = self._running, None
        if running is not None:
            running.terminate(0.0)
            if running.process.stdout is not None:
                running.process.stdout.close()
        if self._channel is not None:
            self._channel.close()
        if self._listener is not None:
            self._listener.join()
