# ruff: noqa: INP001 - run by itself inside a workplace
"""Runs bash commands, one after another, for the process at the address in ``EVOPOLICYGYM_COMMANDS``.

For each command it receives a line of JSON (``command``, ``limit_s``, ``keep_bytes``) and sends one (``output``,
``end``). Background processes go on; their output after the command's end is lost.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
from typing import IO

ADDRESS = "EVOPOLICYGYM_COMMANDS"
SETTLE_S = 1.0
"""Seconds after a command's end in which its output is still read, if a background process has it open."""


class Output:
    """The start and the end of a command's output."""

    def __init__(self, source: IO[bytes], keep_bytes: int) -> None:
        self._source = source
        self._half = keep_bytes // 2
        self._head, self._tail, self._count = b"", b"", 0
        self._lock = threading.Lock()

    def read(self) -> None:
        """Read until no process has the other end open."""
        with self._source:
            while data := os.read(self._source.fileno(), 1 << 16):
                with self._lock:
                    room = self._half - len(self._head)
                    self._head += data[:room]
                    self._tail = (self._tail + data[room:])[-self._half :]
                    self._count += len(data)

    def text(self) -> str:
        """Return the output, with a note if its middle was dropped."""
        with self._lock:
            lost = self._count - len(self._head) - len(self._tail)
            cut = f"\n[… {lost} bytes left out …]\n".encode() if lost else b""
            return (self._head + cut + self._tail).decode("utf-8", "replace")


def run(command: str, limit_s: float, keep_bytes: int) -> dict[str, str]:
    """Run a command to its end or its time limit; return its output and how it ended."""
    try:
        process = subprocess.Popen(
            ["bash", "-c", command],  # noqa: S607 - the workplace's own
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return {"output": "", "end": f"the command can't be started: {error}"}
    assert process.stdout is not None  # noqa: S101 - for the type
    output = Output(process.stdout, keep_bytes)
    reader = threading.Thread(target=output.read, daemon=True)
    reader.start()
    try:
        end = f"exit code {process.wait(limit_s)}"
    except subprocess.TimeoutExpired:
        end = f"killed: it ran longer than {limit_s:g} s"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    reader.join(SETTLE_S)
    return {"output": output.text(), "end": end}


def main() -> None:
    """Serve until the connection is closed."""
    host, _, port = os.environ.pop(ADDRESS).rpartition(":")
    with socket.create_connection((host, int(port))) as channel, channel.makefile("rb") as requests:
        for line in requests:
            channel.sendall(json.dumps(run(**json.loads(line))).encode() + b"\n")


main()
