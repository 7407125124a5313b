"""Sends points of a run to a tracker's process: the configuration, a point for each submission, the final results.

Best effort: a failing tracker never raises, delays the run, or changes its record. Messages go through a pipe, which is
the bounded queue: a tracker that doesn't drain it is stopped. No validation or held-out result is sent while an agent
may still submit.
"""

import json
import math
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from evopolicygym.core.cases import Split
from evopolicygym.core.event import CheckpointSelected, Event, RunFinished, RunOpened, SubmissionPublished
from evopolicygym.core.options import KNOBS, get_setting
from evopolicygym.core.run import RunState, SubmissionState
from evopolicygym.core.score import best_so_far, estimate
from evopolicygym.core.text import printable
from evopolicygym.records.paths import RunPaths
from evopolicygym.tracking.process import Note, read_note, tracking_paths
from evopolicygym.tracking.tracker import Configured, TrackedRun


@dataclass(frozen=True, slots=True)
class TrackedPoint:
    """Values at one step."""

    episodes_spent: int
    values: Mapping[str, float]
    """Finite values by name."""


def config_of(opened: RunOpened) -> dict[str, Configured]:
    """Return a run's configuration by flat names, without commands, options of agents and seeds of cases."""
    task, agent, allowance = opened.task, opened.agent, opened.agent.allowance
    return {
        "run": opened.run_id,
        "task": task.environment.name,
        "environment_id": task.environment.id,
        "family": task.environment.family,
        "kind": task.environment.kind.value,
        "agent": agent.entry,
        "program_sha256": agent.program_sha256 or None,
        "model": agent.model or None,
        "effort": agent.effort or None,
        "seed": opened.seed,
        "budget": task.budget.episodes,
        "validation_cases": task.validation_cases,
        "held_out_cases": task.held_out_cases,
        "films": task.films,
        "policy_packages": ",".join(task.policy_packages) or None,
        **{knob.name: get_setting(task, knob) for knob in KNOBS},
        "max_cost": allowance.cost,
        "max_tokens": allowance.tokens,
        "max_seconds": allowance.seconds,
        "max_turns": allowance.turns,
        "split_source": opened.split.value,
        "experiment_id": opened.experiment,
        "commitment": opened.commitment,
        "isolation": opened.isolation,
        "protocol_version": opened.protocol_version,
        "spec_sha256": opened.spec_sha256,
        **{f"versions.{name}": version for name, version in opened.versions.items()},
    }


def submission_point(state: RunState, submission: SubmissionState, *, is_now: bool) -> TrackedPoint:
    """Return the point of a submission whose feedback is published.

    ``is_now`` adds the agent's usage, which is known for the latest submission only.
    """
    earlier = state.submissions[: submission.index + 1]
    best = best_so_far(item.train_mean for item in earlier)[-1]
    used = state.used
    return _point(
        _spent(state, submission),
        submission=submission.index,
        mean_return=submission.train_mean,
        best_so_far=best,
        tokens=used.tokens if is_now and used.tokens else None,
        cost=used.cost if is_now and used.cost else None,
    )


def validation_points(state: RunState) -> list[TrackedPoint]:
    """Return a point for each candidate, at the step of its submission; none before a checkpoint was selected."""
    if not state.selected:
        return []
    rollouts = [
        (candidate, state.rollout(Split.VALIDATION, candidate.charged.checkpoint)) for candidate in state.candidates
    ]
    return [
        _point(_spent(state, item), validation_mean_return=estimate(rollout.returns).mean) for item, rollout in rollouts
    ]


def held_out_point(state: RunState) -> TrackedPoint | None:
    """Return the score at the last step; None if the run has none."""
    if not state.finished or state.finished.score is None:
        return None
    finished = state.finished
    return _point(state.spent, held_out_score=finished.score, held_out_standard_error=finished.standard_error)


def summary_of(state: RunState) -> dict[str, str | float]:
    """Return the results of a run."""
    if not state.finished:
        return {"status": "stopped"}
    score, used = held_out_point(state), state.used
    last = _point(
        state.spent,
        episodes_spent=state.spent,
        selected_submission=state.selected.submit_index if state.selected else None,
        validation_mean_return=state.selected.validation_mean if state.selected else None,
        tokens=used.tokens or None,
        cost=used.cost or None,
    )
    return {"status": state.finished.status.value, **last.values, **(score.values if score else {})}


def _spent(state: RunState, submission: SubmissionState) -> int:
    return state.budget - submission.remaining_budget


def _point(episodes_spent: int, /, **values: float | None) -> TrackedPoint:
    known = {name: float(value) for name, value in values.items() if value is not None}
    return TrackedPoint(episodes_spent, {name: value for name, value in known.items() if math.isfinite(value)})


OnOpen = Callable[[RunPaths, RunState], None]
OnEvent = Callable[[Event, RunState], None]
OnNote = Callable[[str], object]
PIPE_BYTES = 1 << 20
"""Capacity of the pipe, the largest without privileges on Linux: some 5,000 points."""
EXIT_S = 60.0
"""Seconds until the tracker's process must exit after the run; loading MLflow alone takes ten seconds."""
MAX_REASON = 300
"""Longest reason of a failure in a note to the user, in characters."""


class TrackerSink:
    """Tracks one run; does nothing without a tracker and without a note of an earlier one."""

    def __init__(self, tracker: str, on_note: OnNote) -> None:
        self._name, self._on_note = tracker, on_note
        self._process: subprocess.Popen[bytes] | None = None
        self._log = Path(os.devnull)
        self._note = Note("")

    def open(self, root: Path, state: RunState) -> None:
        """Start the tracker unless it is finished, and send what it hasn't logged."""
        with self._catch_all():
            paths = tracking_paths(root)
            earlier = read_note(paths.note)
            self._name = self._name or earlier.tracker
            self._note = earlier if earlier.tracker == self._name else Note(self._name)
            if not self._name or self._note.is_finished:
                return
            self._log = paths.log
            self._start()
            self._send({"kind": "open", "note": asdict(self._note), "note_path": str(paths.note), **_run(root, state)})
            for submission in state.submissions[self._note.submissions :]:
                if submission.published:
                    self._send_point(
                        submission_point(state, submission, is_now=False), submissions=submission.index + 1
                    )
            self._send_results(state)

    def observe(self, event: Event, state: RunState) -> None:
        """Send the point of a recorded event."""
        if self._process is None:
            return
        with self._catch_all():
            match event:
                case SubmissionPublished(submit_index=index):
                    point = submission_point(state, state.submissions[index], is_now=True)
                    self._send_point(point, submissions=index + 1)
                case CheckpointSelected() | RunFinished():
                    self._send_results(state)

    def close(self) -> None:
        """Wait up to ``EXIT_S`` for the tracker's process to exit, then kill it."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        try:
            with suppress(OSError):
                process.stdin.close()
            code = process.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            self._warn(f"it had not ended {EXIT_S:g} s after the run")
        else:
            if code:
                self._warn(self._last_line())
        finally:
            _kill(process)

    def _send_results(self, state: RunState) -> None:
        """Send validation results once a checkpoint is selected, and the score once the run is finished."""
        if state.selected and not self._note.is_validated:
            for point in validation_points(state):
                self._send_point(point)
            self._note = replace(self._note, is_validated=True)
            self._send({"kind": "done", "note": {"is_validated": True}})
        if state.finished:
            if score := held_out_point(state):
                self._send_point(score)
            self._send({"kind": "close", "summary": summary_of(state)})

    def _send_point(self, point: TrackedPoint, submissions: int | None = None) -> None:
        note = {} if submissions is None else {"submissions": submissions}
        self._send({"kind": "log", **asdict(point), "note": note})

    def _start(self) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "evopolicygym.tracking.process"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pipesize=PIPE_BYTES,
                process_group=0,  # Ctrl-C reaches the run only, which then closes the tracker
            )
        assert self._process.stdin  # noqa: S101 - for the type checker; a pipe by ``stdin``
        os.set_blocking(self._process.stdin.fileno(), False)

    def _send(self, message: dict[str, object]) -> None:
        """Write a whole message to the pipe; stop the tracker if that fails."""
        process = self._process
        if process is None or process.stdin is None:
            return
        line = json.dumps(message).encode() + b"\n"
        try:
            n_bytes = os.write(process.stdin.fileno(), line)
        except BlockingIOError:
            n_bytes = 0
        except BrokenPipeError:
            self._give_up(self._last_line())
            return
        if n_bytes < len(line):
            self._give_up("it does not keep up with the run")

    @contextmanager
    def _catch_all(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - a tracker never stops the run
            self._give_up(f"{type(error).__name__}: {error}")

    def _give_up(self, reason: str) -> None:
        process, self._process = self._process, None
        if process:
            _kill(process)
        self._warn(reason)

    def _warn(self, reason: str) -> None:
        with suppress(Exception):  # a program may have turned warnings into errors
            self._on_note(
                f"The tracker {self._name} stopped: {printable(reason)[:MAX_REASON]}. The run and its record "
                f"are not affected; evopolicygym resume logs what is missing. Its output: {self._log}"
            )

    def _last_line(self) -> str:
        with suppress(OSError):
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
            return next((line for line in reversed(lines) if line.strip()), "it ended early")
        return "it ended early"


@contextmanager
def attach_tracker(
    tracker: str, on_open: OnOpen, on_event: OnEvent, on_note: OnNote = warnings.warn
) -> Iterator[tuple[OnOpen, OnEvent]]:
    """Yield callbacks for the opening and the events of a run that also inform a tracker.

    An empty ``tracker`` means the one that logged the run before it was resumed, if any.
    """
    sink = TrackerSink(tracker, on_note)

    def open_run(paths: RunPaths, state: RunState) -> None:
        sink.open(paths.root, state)
        on_open(paths, state)

    def observe(event: Event, state: RunState) -> None:
        sink.observe(event, state)
        on_event(event, state)

    try:
        yield open_run, observe
    finally:
        sink.close()


def _run(root: Path, state: RunState) -> dict[str, object]:
    opened = state.opened
    agent = opened.agent.entry
    run = TrackedRun(
        opened.run_id,
        f"{opened.task.environment.name} {agent} {opened.run_id}",
        opened.task.environment.name,
        config_of(opened),
        tracking_paths(root).directory,
    )
    return {"run": {**asdict(run), "directory": str(run.directory)}, "modules": sys.path}


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a tracker's process group and reap the process."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
    if process.stdin:
        with suppress(OSError):
            process.stdin.close()
