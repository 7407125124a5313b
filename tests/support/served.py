"""Runs that are served by a process of their own, for an agent that is somewhere else."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BEGIN = ("cartpole", "--label", "mine", "--budget", "6", "--validation", "1", "--held-out", "2", "--split", "public")
PATIENCE_S = 120.0


class Served:
    """A run that is served by a process of its own."""

    def __init__(self, place: Path, process: "subprocess.Popen[bytes]") -> None:
        self.place, self.process = place, process

    @property
    def workspace(self) -> Path:
        """Where the agent works, once the judge answers."""
        until = time.monotonic() + PATIENCE_S
        while not (found := self._address_files()) or not found[0].stat().st_size:
            assert self.process.poll() is None, (self.place / "err").read_text(encoding="utf-8")
            assert time.monotonic() < until
            time.sleep(0.05)
        return found[0].parent

    def shell(self, script: str) -> str:
        """Return what a shell in the workspace prints; it must end well."""
        found = {name: value for name, value in os.environ.items() if not name.startswith("EVOPOLICYGYM_")}
        done = subprocess.run(
            ["/bin/sh", "-ec", script], cwd=self.workspace, env=found, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ended(self) -> dict[str, object]:
        """Return the document of the run once it is over."""
        assert self.process.wait(PATIENCE_S) == 0, (self.place / "err").read_text(encoding="utf-8")
        (file,) = self.place.rglob("run.json")
        document: dict[str, object] = json.loads(file.read_bytes())
        return document

    def kill(self) -> None:
        """Kill it as a crash of the machine would, and remove what says where it answered."""
        self.kill_judge()
        for file in self._address_files():
            file.unlink()

    def kill_judge(self) -> None:
        """Kill it, and leave all that it wrote."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _address_files(self) -> list[Path]:
        places = ("*", "runs/*/*/*/*/workspace")
        found = (file for place in places for file in self.place.glob(f"{place}/judge.env"))
        return [file for file in found if file.is_file() and not file.is_symlink()]


@contextmanager
def served(place: Path, *words: str, verb: str = "serve") -> Iterator[Served]:
    """Yield a run that is served, or resumed by another verb, and end its process."""
    with (place / "out").open("wb") as out, (place / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "evopolicygym", verb, *words, "--runs", str(place / "runs"), "--workers", "1"],
            stdout=out,
            stderr=err,
            env={**os.environ, "XDG_STATE_HOME": str(place / "state")},
            start_new_session=True,
        )
    try:
        yield Served(place, process)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
