"""How the time that is left is estimated, and how far things are is said where there is no terminal."""

from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from evopolicygym.api.play.progress import RunView
from evopolicygym.cli.suite_view import SuiteView
from evopolicygym.core.run import Stage, fold
from evopolicygym.records.paths import RunPaths
from evopolicygym.runs.progress import Pace, RunProgress
from evopolicygym.runs.suites.records import PlannedRunResult, PlannedRunVerdict
from evopolicygym.runs.suites.suite import plan
from fakes import whole_run
from suites import suite


@dataclass
class Clock:
    """A clock that is set by hand."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("before", "seconds", "done", "total", "left"),
    [
        (0, 30.0, 3, 4, "about 0m10s left"),
        (2, 30.0, 3, 4, "about 0m30s left"),
        (0, 0.001, 3, 4, "about 0m01s left"),
        (0, 3.2, 3, 4, "about 0m02s left"),
        (0, 7200.0, 1, 2, "about 2h00m left"),
        (0, 30.0, 0, 4, ""),
        (3, 30.0, 3, 4, ""),
        (0, 30.0, 4, 4, ""),
    ],
)
def test_the_time_that_is_left(before: float, seconds: float, done: float, total: float, left: str) -> None:
    """The rest takes as long as its like did since it was seen first; it is never nothing, and unknown without any."""
    clock = Clock()
    pace = Pace(before, clock)
    clock.now = seconds

    assert pace.left(done, total) == left


def lines(console: Console) -> list[str]:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


def log_of(seconds: float) -> list[str]:
    """Return what is printed without a terminal of a run in which every event takes so many seconds."""
    clock, console = Clock(), Console(file=StringIO(), force_terminal=False, width=120)
    view, events = RunView(console, clock), whole_run()
    view.opened(RunPaths(Path("runs/a")), fold(events[:1]))
    for place in range(1, len(events)):
        clock.now += seconds
        view.observe(events[place], fold(events[: place + 1]))
    return lines(console)


def test_hidden_cases_are_followed_in_words(snapshot: SnapshotAssertion) -> None:
    """Without a terminal, validation and held-out say every half minute how far they are and what time is left."""
    assert log_of(20.0)[-4:] == snapshot


def test_a_quick_run_has_a_short_log() -> None:
    """What is over within half a minute gets no line of its own."""
    assert not [line for line in log_of(1.0) if "episodes played" in line]


def test_a_bar_says_what_time_is_left() -> None:
    """On a terminal the time that is left stands beside the bars of validation and held-out."""
    clock, console = Clock(), Console(file=StringIO(), force_terminal=True, width=120, color_system=None)
    view, events = RunView(console, clock), whole_run()
    for place in range(1, len(events)):
        clock.now += 20.0
        view.observe(events[place], fold(events[: place + 1]))
        console.print(view._draw())
    *before, validation, held_out = lines(console)

    assert [sum(f"about 0m{left}0s left" in line for line in before) for left in (4, 2)] == [2, 2]
    assert ("4/4" in validation, "3/3" in held_out, "left" in validation + held_out) == (True, True, False)


def test_a_suite_is_followed_in_words(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """Without a terminal, a suite says every half minute how far each run is, and what time is left."""
    runs = plan(suite(tmp_path, "tuner", "random"))
    clock, console = Clock(), Console(file=StringIO(), force_terminal=False, width=120)
    view = SuiteView(console, {run.number: PlannedRunResult(run) for run in runs}, clock)
    for seconds, standing in ((29.0, RunProgress(Stage.OPEN, 3, 6)), (30.0, RunProgress(Stage.CLOSED, 0, 4))):
        clock.now = seconds
        view.observe(runs[0], standing)

    assert lines(console) == snapshot


def test_the_last_run_of_a_suite_takes_time(tmp_path: Path) -> None:
    """While a run is being played there is time left, even where all of its episodes were played."""
    runs = plan(suite(tmp_path, "tuner", repeats=4))
    clock, console = Clock(), Console(file=StringIO(), force_terminal=True, width=120, color_system=None)
    view = SuiteView(console, {run.number: PlannedRunResult(run) for run in runs}, clock)
    for run in runs[:3]:
        view.observe(run, PlannedRunResult(run, PlannedRunVerdict.FINISHED, tmp_path, 1.0, 0.5))
    view.observe(runs[3], RunProgress(Stage.FINISHED, 32, 32))
    clock.now = 3.0
    console.print(view._draw())

    assert "3/4 runs 0m03s, about 0m01s left" in " ".join(lines(console)[-1].split())
