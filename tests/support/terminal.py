"""A bash that takes one command after another, as from a person who sits before it."""

import os
import re
import select
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Self

LONGEST_S = 900
"""After so long a command counts as hanging."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    printed: str
    """On stdout and stderr, in the order in which it came."""


@dataclass(frozen=True, slots=True)
class Running:
    """A command that goes on beside the others until Ctrl-C."""

    group: int
    """Its process group."""
    output: Path

    def printed(self) -> str:
        """Return what it printed so far."""
        return self.output.read_text(encoding="utf-8", errors="replace")


class Terminal:
    """Keeps directory, variables and what was activated from one command to the next."""

    def __init__(self, directory: Path, notes: Path, environment: Mapping[str, str]) -> None:
        """Begin in a directory, with these variables alone; ``notes`` is where commands and outputs are kept."""
        self._notes, self._number = notes, 0
        self._running: list[Running] = []
        self._bash = subprocess.Popen(
            ["/bin/bash", "--noprofile", "--norc"],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for running in self._running:
            os.killpg(running.group, signal.SIGKILL)
        self._bash.communicate(b"exit\n", timeout=LONGEST_S)

    def type(self, command: str) -> Ended:
        """Run a command to its end; it has no input, and prints to no screen."""
        script, output = self._keep(command)
        said = self._say(f". '{script}' >'{output}' 2>&1 </dev/null; echo $?")
        return Ended(int(said), output.read_text(encoding="utf-8", errors="replace"))

    def start(self, command: str, until: str) -> Running:
        """Run a command beside the others; return once it has printed what an expression finds."""
        script, output = self._keep(command)
        # With job control it has a process group of its own, and Ctrl-C isn't ignored as by others in the background.
        said = self._say(f"set -m; . '{script}' >'{output}' 2>&1 </dev/null & set +m; echo $!")
        running = Running(int(said), output)
        self._running.append(running)
        begun = monotonic()
        while not (output.exists() and re.search(until, running.printed())):
            assert monotonic() - begun < LONGEST_S, f"{command} never printed {until}:\n{running.printed()}"
            sleep(0.05)
        return running

    def interrupt(self, running: Running) -> Ended:
        """Press Ctrl-C on a command, and wait for its end."""
        os.killpg(running.group, signal.SIGINT)
        self._running.remove(running)
        said = self._say(f"wait {running.group}; echo $?")
        return Ended(int(said), running.printed())

    def _keep(self, command: str) -> tuple[Path, Path]:
        self._number += 1
        script, output = self._notes / f"{self._number:03d}.sh", self._notes / f"{self._number:03d}.txt"
        script.write_text(f"{command}\n", encoding="utf-8")
        return script, output

    def _say(self, line: str) -> str:
        """Have bash run a line that ends by printing one; return that."""
        stdin, stdout = self._bash.stdin, self._bash.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{line}\n".encode())
        stdin.flush()
        if not select.select([stdout], [], [], LONGEST_S)[0]:
            os.killpg(self._bash.pid, signal.SIGKILL)
            self._bash.communicate()
            raise TimeoutError(f"no end after {LONGEST_S} s: {line}")
        said = stdout.readline().decode()
        assert said, f"it ended the shell: {line}"
        return said
