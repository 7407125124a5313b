"""A run in a separate process, for the check of an agent: interrupted in the middle, and resumed.

An agent that crashes its process, or leaves others behind, can't affect the check.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evopolicygym.agents.base import make
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.event import Event, SubmissionPublished
from evopolicygym.core.run import RunState
from evopolicygym.records.paths import RunPaths
from evopolicygym.runs.config import RunConfig
from evopolicygym.runs.run import play, resume

STOP_S = 90.0
"""Seconds until a run must have stopped; an agent has half of them."""
OUTPUT_CHARACTERS = 300
CANARY = "canary.txt"


@dataclass(frozen=True, slots=True)
class RunOrder:
    """The request to the process."""

    config: RunConfig
    place: Path
    """Directory of its report and output."""
    root: Path | None = None
    """The run to resume; None for a new run, which is stopped after its first submission."""
    canary: str = ""
    """Text of a file in a new run's directory, which no agent may read."""


@dataclass(frozen=True, slots=True)
class CheckedRunOutcome:
    """The outcome of a checked run."""

    made: bool = False
    """Whether the agent could be created."""
    root: Path | None = None
    """The run directory; None where none was created."""
    stopped: bool = False
    """Whether it was stopped with budget left."""
    finished: bool = False
    error: str = ""
    """Error message; empty without an error."""


def play_in_process(order: RunOrder, environment: Mapping[str, str], patience_s: float) -> CheckedRunOutcome:
    """Play in another process, which is interrupted after ``patience_s`` seconds, then killed."""
    order.place.mkdir()
    path = os.pathsep.join(filter(None, sys.path))
    with (order.place / "printed").open("wb") as printed:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "evopolicygym.checks.agent_run"],
            env={**os.environ, **environment, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
        late = ""
        try:
            process.communicate(pickle.dumps(order), timeout=patience_s)
        except subprocess.TimeoutExpired:
            late = f"it had not ended after {patience_s:g} s"
            process.send_signal(signal.SIGINT)
        finally:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    return _outcome(order.place, process.returncode, late)


def _outcome(place: Path, code: int, late: str) -> CheckedRunOutcome:
    reported: dict[str, Any] = {}
    with suppress(OSError):
        for line in (place / "reported").read_text(encoding="utf-8").splitlines():
            reported |= json.loads(line)
    error = late or str(reported.get("error", ""))
    finished, stopped = bool(reported.get("finished")), bool(reported.get("stopped")) and not late
    if not (error or finished or stopped):
        printed = (place / "printed").read_text(encoding="utf-8", errors="replace")
        error = f"the process that played it ended with {code}: {' '.join(printed.split())[-OUTPUT_CHARACTERS:]}"
    root = Path(reported["root"]) if "root" in reported else None
    return CheckedRunOutcome(bool(reported.get("made")), root, stopped, finished, error)


class _Play:
    """Plays in the other process."""

    def __init__(self, order: RunOrder) -> None:
        self._order = order
        self._stopped = False

    def __call__(self) -> None:
        """Play, and report the outcome."""
        order = self._order
        try:
            make(order.config.agent)
            self._report(made=True)
            if order.root is None:
                play(order.config, self._opened, self._observe)
            else:
                resume(order.root, 1, self._opened, lambda _event, _state: None)
            self._report(finished=True)
        except KeyboardInterrupt:
            self._report(stopped=self._stopped)
        except EvoPolicyGymError as error:
            self._report(error=str(error))

    def _opened(self, paths: RunPaths, _state: RunState) -> None:
        if self._order.root is None:
            (paths.root / CANARY).write_text(self._order.canary, encoding="utf-8")
        self._report(root=str(paths.root))

    def _observe(self, event: Event, state: RunState) -> None:
        if isinstance(event, SubmissionPublished) and state.remaining and not self._stopped:
            self._stopped = True
            os.kill(os.getpid(), signal.SIGINT)

    def _report(self, **fields: object) -> None:
        with (self._order.place / "reported").open("a", encoding="utf-8") as file:
            file.write(json.dumps(fields) + "\n")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    _Play(pickle.loads(sys.stdin.buffer.read()))()  # noqa: S301 - from our own hands
