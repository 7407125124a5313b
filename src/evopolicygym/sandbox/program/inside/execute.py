# ruff: noqa: INP001 - run by itself inside a workplace
"""Executes commands concurrently for the process at the address in ``EVOPOLICYGYM_EXECUTE``.

Both sides send lines of JSON over one connection, each with the ``number`` of a command. It receives ``start``
(``command``, ``directory``, ``environment``, ``terminal``: rows and columns, or null), ``input`` (``data``),
``end_input``, ``resize`` (``terminal``) and ``kill``, named by ``do``. It sends ``data`` with its ``stream``, then
``end``, a shell's exit code, with the ``signal`` that ended it or 0; or ``refused``, an errno, with ``reason`` and
``file``, if a command can't be started. Data is in base64.

Background processes go on; their output after the command's end is lost.
"""

import base64
import contextlib
import fcntl
import json
import os
import queue
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
from io import FileIO

ADDRESS = "EVOPOLICYGYM_EXECUTE"
SETTLE_S = 1.0
"""Seconds after a command's end in which its output is still read, if a background process has it open."""
CONTROLLING = (
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "try: os.execvp(sys.argv[1], sys.argv[1:])\n"
    "except OSError as error: sys.exit(f'{sys.argv[1]}: {error.strerror}')\n"
)
"""Makes its input the controlling terminal of its session, and becomes the command."""
CHUNK = 1 << 16
END_OF_INPUT = b"\x04"
"""Ctrl-D."""


class Connection:
    """Sends lines from any thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._lock = connection, threading.Lock()

    def send(self, **fields: object) -> None:
        """Send a line; exit if the other side is gone."""
        line = json.dumps(fields).encode() + b"\n"
        with self._lock:
            try:
                self._connection.sendall(line)
            except OSError:
                os._exit(1)


class Command:
    """A command."""

    def __init__(self, number: int, connection: Connection, commands: "dict[int, Command]") -> None:
        self._number, self._connection, self._commands = number, connection, commands
        self._input: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._terminal: FileIO | None = None
        self._leader = 0
        self._reaped = threading.Lock()

    def start(
        self, command: list[str], directory: str, environment: dict[str, str], terminal: list[int] | None
    ) -> None:
        """Start it; threads send its output and its end."""
        theirs = subprocess.PIPE
        if terminal:
            ours, theirs = os.openpty()
            self._terminal = FileIO(ours, "r+")
            self.resize(terminal)
            command = [sys.executable, "-I", "-c", CONTROLLING, *command]
        try:
            process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                cwd=directory or None,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            number, file = (error.errno, error.filename) if isinstance(error, OSError) else (0, None)
            self._connection.send(
                number=self._number, refused=number, reason=getattr(error, "strerror", "") or str(error), file=file
            )
            self._commands.pop(self._number)
            return
        finally:
            if terminal:
                os.close(theirs)
        self._leader = process.pid
        streams = [("stdout", self._terminal or process.stdout), ("stderr", process.stderr)]
        readers = [threading.Thread(target=self._read, args=item, daemon=True) for item in streams if item[1]]
        writer = threading.Thread(target=self._write, args=(self._terminal or process.stdin,), daemon=True)
        for thread in (*readers, writer, threading.Thread(target=self._wait, args=(process, readers), daemon=True)):
            thread.start()

    def put(self, data: "bytes | None") -> None:
        """Queue data for its input; None closes its input."""
        self._input.put(data)

    def resize(self, terminal: list[int]) -> None:
        """Set the size of its terminal."""
        if self._terminal is not None:
            with contextlib.suppress(OSError, ValueError):
                size = struct.pack("HHHH", terminal[0], terminal[1], 0, 0)
                fcntl.ioctl(self._terminal.fileno(), termios.TIOCSWINSZ, size)

    def kill(self) -> None:
        """Kill all processes of its session, unless it has ended."""
        if self._leader and self._reaped.acquire(blocking=False):
            kill_session(self._leader)
            self._reaped.release()

    def _write(self, into: FileIO) -> None:
        while (data := self._input.get()) is not None:
            with contextlib.suppress(OSError, ValueError):  # its input may be closed
                while data:
                    data = data[into.write(data[:CHUNK]) :]
        with contextlib.suppress(OSError, ValueError):
            if self._terminal is None:
                into.close()
            else:
                into.write(END_OF_INPUT)

    def _read(self, stream: str, source: FileIO) -> None:
        with source, contextlib.suppress(OSError):  # raised for a terminal that no process has open
            while data := source.read(CHUNK):
                self._connection.send(number=self._number, stream=stream, data=base64.b64encode(data).decode())

    def _wait(self, process: "subprocess.Popen[bytes]", readers: list[threading.Thread]) -> None:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with self._reaped:  # until it is reaped, its process number isn't reused
            code = process.wait()
            self._leader = 0
        for reader in readers:
            reader.join(SETTLE_S)
        self._connection.send(number=self._number, end=code if code >= 0 else 128 - code, signal=max(0, -code))
        self._commands.pop(self._number)
        self.put(None)


def kill_session(leader: int) -> None:
    """Kill every process of a session."""
    for entry in os.listdir("/proc"):  # noqa: PTH208 - of names that come and go
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if os.getsid(int(entry)) == leader:
                    os.kill(int(entry), signal.SIGKILL)


def main() -> None:
    """Serve until the connection is closed."""
    host, _, port = os.environ.pop(ADDRESS).rpartition(":")
    with socket.create_connection((host, int(port))) as channel, channel.makefile("rb") as requests:
        connection = Connection(channel)
        commands: dict[int, Command] = {}
        for line in requests:
            request = json.loads(line)
            do, number = request.pop("do"), request.pop("number")
            if do == "start":
                commands[number] = Command(number, connection, commands)
                commands[number].start(**request)
            elif command := commands.get(number):  # it may have ended
                perform(command, do, **request)


def perform(command: Command, do: str, data: str = "", terminal: "list[int] | None" = None) -> None:
    """Handle a request for a running command."""
    if do == "input":
        command.put(base64.b64decode(data))
    elif do == "end_input":
        command.put(None)
    elif do == "resize" and terminal:
        command.resize(terminal)
    elif do == "kill":
        command.kill()


main()
