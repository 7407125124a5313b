"""Suites for tests: small ones, and the program that plays them, killed and gone on with."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from evopolicygym.core.errors import RecordError
from evopolicygym.records.atomic import lock_file
from evopolicygym.runs.suites.suite import SuiteConfig, load_suite, parse_entry

TESTS = Path(__file__).parent
PATIENCE_S = 300.0
"""Within which anything comes that is waited for, however busy the machine is."""
SMALL = {"environments": ["cartpole"], "budget": 6, "validation": 1, "held_out": 2, "split": "public"}


def suite(runs: Path, *agents: str, **changes: Any) -> SuiteConfig:
    """Return a small suite on cartpole."""
    small = {name: value for name, value in SMALL.items() if name not in changes.get("cross", {})}
    return load_suite("smoke", {**small, "runs": str(runs), "agents": [parse_entry(one) for one in agents], **changes})


def wait_for(come: Callable[[], Any], what: str) -> None:
    """Wait until something is so."""
    deadline = monotonic() + PATIENCE_S
    while not come():
        assert monotonic() < deadline, f"{what} did not come within {PATIENCE_S:g} s"
        sleep(0.02)


@dataclass(frozen=True, slots=True)
class Program:
    """The program, asked for one suite again and again."""

    runs: Path
    arguments: tuple[str, ...]

    @property
    def directory(self) -> Path:
        """Where the suite's runs lie."""
        return self.runs / "smoke"

    @contextmanager
    def start(self) -> Iterator["subprocess.Popen[str]"]:
        """Start it in a process group of its own, which is killed at the end where it is still there."""
        process = subprocess.Popen(
            [sys.executable, "-m", "evopolicygym", "suite", "smoke", *self.arguments, "--runs", self.runs, "--json"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with killed_at_the_end(process):
            yield process

    def played(self) -> tuple[int, list[dict[str, Any]], str]:
        """Run it to its end; return its exit code, the runs that it tells of, and its complaints."""
        with self.start() as process:
            return ended(process)

    def interrupted(self, come: Callable[[], bool], how: signal.Signals) -> int:
        """Run it until something is so, and end it; return its exit code once all of it is gone."""
        with self.start() as process:
            wait_for(lambda: come() or is_over(process.pid), "the moment to end the suite")
            assert not is_over(process.pid)
            os.killpg(process.pid, how)
            process.communicate()
        wait_for(self.free, "the end of all runs")
        return process.returncode

    def journaled(self) -> int:
        """Return how many bytes stand in the journals of all runs."""
        return sum(file.stat().st_size for file in self.directory.glob("*/*/*/journal.jsonl"))

    def free(self) -> bool:
        """Return whether nobody plays the suite."""
        try:
            os.close(lock_file(self.directory / "suite.lock", "it"))
        except RecordError:
            return False
        return True


@contextmanager
def killed_at_the_end(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Kill a process and its group at the end of the block, where it is still there."""
    with process:
        try:
            yield
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def ended(process: "subprocess.Popen[str]") -> tuple[int, list[dict[str, Any]], str]:
    """Wait for the program's end; return as ``Program.played`` does."""
    out, complaints = process.communicate(timeout=PATIENCE_S)
    return process.returncode, json.loads(out or "[]"), complaints


def is_over(child: int) -> bool:
    """Return whether a child of this process has ended; it is left to be reaped, so its number is still its own."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def children(process: int) -> list[int]:
    """Return the processes that a process has started and that are there."""
    files = list(Path(f"/proc/{process}/task").glob("*/children"))  # each thread has its own
    if not files:
        pytest.skip("this kernel doesn't list a process's children")
    return [int(word) for file in files for word in file.read_text().split()]


def scores(runs: list[dict[str, Any]]) -> dict[tuple[str, str, int, str], tuple[float, float]]:
    """Return the score of each run, by what the run is."""
    return {
        (one["environment"], one["agent"], one["repeat"], str(one["levels"])): (one["score"], one["standard_error"])
        for one in runs
    }
