"""A workplace in an agent program's sandbox, in which commands are executed, one after another or concurrently.

    with StandingWorkplace(program_sandbox(isolation), program, endpoints) as workplace:
        done = workplace.execute(["bash", "-c", "./judge info"], limit_s=60.0)  # waits, and returns the output
        shell = workplace.start(["bash"], hear=show, terminal=Terminal(24, 80))  # a shell for a person
        shell.send(b"ls ")
        shell.wait()

The commands share ``/workspace``, a home, ``/tmp``, the judge's address and the limits of an agent's program. All end
when the workplace is closed. ``inside/execute.py`` starts them in the sandbox.
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
from subprocess import TimeoutExpired
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from evopolicygym.core import strict_json
from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.base import Program, ProgramExit, ProgramSandbox, RunningProgram, Serve

EXECUTE_PORT = 8702
"""Port on which the sandbox receives commands, if it has its own network."""
EXECUTE_VARIABLE = "EVOPOLICYGYM_EXECUTE"
CONNECT_S = 30.0
EXIT_S = 2.0
"""Seconds in which the processes of a lost workplace must end by themselves."""
SEND_S = 30
"""Seconds after which a workplace that reads nothing counts as lost."""
MAX_LINE = 1 << 20
CHUNK = 256 << 10
"""Most bytes of input in a line."""
MOST_BYTES = 10 << 20
"""Default limit of each stream that is kept."""
STDOUT, STDERR = "stdout", "stderr"
Hear = Callable[[str, bytes], object]
"""Called with output of a command as it arrives: ``stdout`` or ``stderr``, and the bytes. It blocks all commands."""


class Terminal(NamedTuple):
    """The size of a command's terminal, which replaces its pipes; all output is then ``stdout``."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Execution:
    """The result of a command."""

    code: int
    """Its exit code; after a signal, 128 and the signal's number, as in a shell."""
    stdout: bytes
    stderr: bytes
    cut: frozenset[str] = frozenset()
    """Streams that exceeded the limit, which killed the command; only their start is kept."""


@dataclass(slots=True)
class OutputBuffer:
    """The output of a command, up to a limit of each stream."""

    most_bytes: int
    streams: dict[str, bytearray] = field(default_factory=lambda: {STDOUT: bytearray(), STDERR: bytearray()})
    cut: set[str] = field(default_factory=set)
    on_full: Callable[[], object] = lambda: None
    """Called when a stream exceeds the limit."""

    def add(self, stream: str, data: bytes) -> None:
        """Add output up to the limit."""
        room = self.most_bytes - len(self.streams[stream])
        self.streams[stream] += data[:room]
        if len(data) > room and stream not in self.cut:
            self.cut.add(stream)
            self.on_full()

    def execution(self, code: int) -> Execution:
        """Return the result of the command, given its exit code."""
        return Execution(code, bytes(self.streams[STDOUT]), bytes(self.streams[STDERR]), frozenset(self.cut))


class WorkplaceLost(SandboxError):
    """The process that runs a workplace's commands is gone, such as killed by a command; the workplace is closed."""


class RunningCommand:
    """A command in a workplace."""

    def __init__(self, number: int, send_message: Callable[[Mapping[str, Any]], None], hear: Hear) -> None:
        self.end: Future[int] = Future()
        """Its exit code when it has ended; an ``OSError`` if it can't be started, or ``WorkplaceLost``."""
        self.signal = 0
        """The signal that ended it; 0 if none did, or it runs."""
        self.hear = hear
        self._number, self._send_message = number, send_message

    def send(self, data: bytes) -> None:
        """Send data to its input or its terminal; ignored after its end."""
        for first in range(0, len(data), CHUNK):
            self._do("input", data=base64.b64encode(data[first : first + CHUNK]).decode())

    def end_input(self) -> None:
        """Close its input."""
        self._do("end_input")

    def resize(self, terminal: Terminal) -> None:
        """Set the size of its terminal."""
        self._do("resize", terminal=terminal)

    def kill(self) -> None:
        """Kill all processes of its session."""
        self._do("kill")

    def wait(self, limit_s: float | None = None) -> int:
        """Return its exit code when it has ended; after a signal, 128 and the signal's number.

        Raises ``TimeoutError`` if it hasn't ended in time (it goes on), ``FileNotFoundError``, ``PermissionError`` or
        another ``OSError`` if it can't be started, and ``WorkplaceLost``.
        """
        return self.end.result(limit_s)

    def _do(self, do: str, **fields: object) -> None:
        if not self.end.done():
            self._send_message({"do": do, "number": self._number, **fields})


class StandingWorkplace:
    """Executes commands in an agent program's sandbox.

    Commands may be started by any thread. All their processes end with the workplace.
    """

    def __init__(
        self,
        sandbox: ProgramSandbox,
        program: Program,
        endpoints: Mapping[int, Serve] = MappingProxyType({}),
        hidden: Sequence[Path] = (),
    ) -> None:
        """Prepare the sandbox of ``program``, with endpoints by their ports inside.

        The program must exist, and is not started. Entering raises ``SandboxError`` if it is not found, a path of
        ``hidden`` is visible, or the sandbox can't be created.
        """
        self._sandbox, self._program, self._endpoints, self._hidden = sandbox, program, endpoints, hidden
        self._preflight: Mapping[str, str] = {}
        self._running: RunningProgram | None = None
        self._channel: socket.socket | None = None
        self._commands: dict[int, RunningCommand] = {}
        self._numbers, self._lock = count(), threading.Lock()
        self._lost = threading.Event()
        self._listener: threading.Thread | None = None

    def __enter__(self) -> Self:
        listeners: list[socket.socket] = []

        def serve(listener: socket.socket) -> Mapping[str, str]:
            listeners.append(listener)
            host, port = listener.getsockname()
            return {EXECUTE_VARIABLE: f"{host}:{port}"}

        script = (files("evopolicygym.sandbox.program") / "inside" / "execute.py").read_text(encoding="utf-8")
        # The program's command is appended so that the files that it names are visible; the script ignores it.
        command = (self._sandbox.python, "-I", "-c", script, *self._program.command)
        program = replace(self._program, command=command)
        self._preflight = self._sandbox.preflight(self._program, self._hidden)
        try:
            self._running = self._sandbox.start(program, {**self._endpoints, EXECUTE_PORT: serve})
            listeners[0].settimeout(CONNECT_S)
            self._channel, _ = listeners[0].accept()  # the only connection, before any command could connect
        except OSError as error:
            self._close()
            raise SandboxError(f"No commands can be executed in the workplace: {error}") from error
        finally:
            for listener in listeners:
                listener.close()
        self._channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_S, 0))
        self._listener = threading.Thread(target=self._listen, args=(self._channel,), name="workplace", daemon=True)
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def python(self) -> str:
        """The Python executable in the sandbox."""
        return self._sandbox.python

    @property
    def findings(self) -> Mapping[str, str]:
        """What is enforced on the commands, by name."""
        return {**self._preflight, **(self._running.findings if self._running else {})}

    @property
    def lost(self) -> bool:
        """Whether it is closed: every further command raises ``WorkplaceLost``."""
        return self._lost.is_set()

    def exited(self) -> ProgramExit | None:
        """Return how its processes ended, if they have ended by themselves or by others and it is not closed."""
        running = self._running
        if running is None:
            return None
        if self.lost:
            with suppress(TimeoutExpired):
                running.process.wait(EXIT_S)
        return running.exited()

    def limit_exceeded(self) -> str:
        """Return a sentence with the limit that the commands exceed together; empty if none. Call it regularly."""
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
        """Start a command, concurrently with others.

        Args:
            command: The program, searched on the workplace's ``PATH``, and its arguments, without a shell.
            hear: Called with its output as it arrives.
            directory: Its working directory, relative to ``/workspace``, the default.
            environment: Variables besides those of the workplace.
            terminal: The size of its terminal; None for pipes.

        Raises ``WorkplaceLost``. If it can't be started, its ``wait`` raises.
        """
        with self._lock:
            number = next(self._numbers)
            running = RunningCommand(number, self._send, hear)
            self._commands[number] = running
        try:
            self._send(
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
        return running

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
        """Execute a command with ``data`` as its input; return its result, with at most ``most_bytes`` of each stream.

        Raises ``TimeoutError`` if it hasn't ended in time (its session is killed), ``OSError`` if it can't be started,
        and ``WorkplaceLost``.
        """
        running, output = self.begin(command, data, directory=directory, environment=environment, most_bytes=most_bytes)
        try:
            return output.execution(running.wait(limit_s))
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
    ) -> tuple[RunningCommand, OutputBuffer]:
        """Start a command like ``execute``; return it and its output, for callers that wait otherwise."""
        output = OutputBuffer(most_bytes)
        running = self.start(command, output.add, directory=directory, environment=environment)
        output.on_full = running.kill
        if output.cut:  # before on_full was set
            running.kill()
        running.send(data)
        running.end_input()
        return running, output

    def _send(self, line: Mapping[str, Any]) -> None:
        data = json.dumps(line).encode() + b"\n"
        with self._lock:
            if self._channel is not None and not self.lost:
                try:
                    self._channel.sendall(data)
                except OSError:
                    self._lost.set()
                else:
                    return
        raise WorkplaceLost("The workplace and all its processes are gone.")

    def _listen(self, channel: socket.socket) -> None:
        """Pass on the output of commands until the workplace ends. Messages are untrusted: a command may send them."""
        with suppress(OSError, ValueError, KeyError, TypeError), channel.makefile("rb") as lines:
            while (line := lines.readline(MAX_LINE)).endswith(b"\n"):
                self._handle(strict_json.decode(line))
        self._lost.set()
        for command in list(self._commands.values()):
            if not command.end.done():
                command.end.set_exception(WorkplaceLost("The workplace and the command are gone."))
        self._commands.clear()

    def _handle(self, message: Mapping[str, Any]) -> None:
        command = self._commands.get(message["number"])
        if command is None:
            return
        if "stream" in message:
            stream = STDERR if message["stream"] == STDERR else STDOUT
            command.hear(stream, base64.b64decode(message["data"], validate=True))
            return
        self._commands.pop(message["number"])
        if "end" in message:
            command.signal = int(message["signal"])
            command.end.set_result(int(message["end"]))
        else:
            command.end.set_exception(OSError(int(message["refused"]), str(message["reason"]), message["file"]))

    def _close(self) -> None:
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
