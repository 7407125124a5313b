"""The run of an agent's check, in a separate process, so that an agent that crashes its process can't end the check."""

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
"""Seconds in which an interrupted run must stop; its agent has half of them."""
OUTPUT_CHARACTERS = 300
CANARY = "canary.txt"


@dataclass(frozen=True, slots=True)
class RunOrder:
    """The request to the process."""

    config: RunConfig
    directory: Path
    """Directory of its report and output."""
    root: Path | None = None
    """The run to resume; None for a new run, which is interrupted after its first submission."""
    canary: str = ""
    """Text of a file in a new run's directory, which no agent may read."""


@dataclass(frozen=True, slots=True)
class CheckedRunOutcome:
    """The outcome of a half of the run."""

    made: bool = False
    """Whether the agent could be created."""
    root: Path | None = None
    """The run directory; None if none was created."""
    stopped: bool = False
    """Whether it was interrupted with budget left."""
    finished: bool = False
    error: str = ""


def play_in_process(order: RunOrder, environment: Mapping[str, str], patience_s: float) -> CheckedRunOutcome:
    """Play in another process, which is interrupted after ``patience_s`` seconds, then killed."""
    order.directory.mkdir()
    path = os.pathsep.join(filter(None, sys.path))
    with (order.directory / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "evopolicygym.checks.agent_run"],
            env={**os.environ, **environment, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        timeout_error = ""
        try:
            process.communicate(pickle.dumps(order), timeout=patience_s)
        except subprocess.TimeoutExpired:
            timeout_error = f"it had not ended after {patience_s:g} s"
            process.send_signal(signal.SIGINT)
        finally:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    return _read_outcome(order.directory, process.returncode, timeout_error)


def _read_outcome(directory: Path, code: int, timeout_error: str) -> CheckedRunOutcome:
    report: dict[str, Any] = {}
    with suppress(OSError):
        for line in (directory / "report").read_text(encoding="utf-8").splitlines():
            report |= json.loads(line)
    error = timeout_error or str(report.get("error", ""))
    finished, stopped = bool(report.get("finished")), bool(report.get("stopped")) and not timeout_error
    if not (error or finished or stopped):
        output = (directory / "output").read_text(encoding="utf-8", errors="replace")
        error = f"the process that played it ended with {code}: {' '.join(output.split())[-OUTPUT_CHARACTERS:]}"
    root = Path(report["root"]) if "root" in report else None
    return CheckedRunOutcome(bool(report.get("made")), root, stopped, finished, error)


class _RunProcess:
    """The other process."""

    def __init__(self, order: RunOrder) -> None:
        self._order = order
        self._stopped = False

    def play(self) -> None:
        """Play, and report the outcome."""
        order = self._order
        try:
            make(order.config.agent)
            self._report(made=True)
            if order.root is None:
                play(order.config, self._on_opened, self._on_event)
            else:
                resume(order.root, 1, self._on_opened, lambda _event, _state: None)
            self._report(finished=True)
        except KeyboardInterrupt:
            self._report(stopped=self._stopped)
        except EvoPolicyGymError as error:
            self._report(error=str(error))

    def _on_opened(self, paths: RunPaths, _state: RunState) -> None:
        if self._order.root is None:
            (paths.root / CANARY).write_text(self._order.canary, encoding="utf-8")
        self._report(root=str(paths.root))

    def _on_event(self, event: Event, state: RunState) -> None:
        if isinstance(event, SubmissionPublished) and state.remaining and not self._stopped:
            self._stopped = True
            os.kill(os.getpid(), signal.SIGINT)

    def _report(self, **fields: object) -> None:
        with (self._order.directory / "report").open("a", encoding="utf-8") as file:
            file.write(json.dumps(fields) + "\n")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    _RunProcess(pickle.loads(sys.stdin.buffer.read())).play()  # noqa: S301 - written by play_in_process
