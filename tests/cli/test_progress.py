"""What a person sees of a run while it is played, and how its score stands beside others."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from evopolicygym.analysis.published.score_tables import paper
from evopolicygym.analysis.run_scores import compare
from evopolicygym.api.play.progress import RunView
from evopolicygym.api.read.submissions import submissions_table
from evopolicygym.cli.outcome import show_outcome
from evopolicygym.core.agent import AgentConfig, Allowance
from evopolicygym.core.event import CloseReason, EpisodePlayed, Event, RunClosed, RunFinished, RunStatus
from evopolicygym.core.rollout import Failure, FailureReason
from evopolicygym.core.run import fold
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord
from evopolicygym.specs import catalog
from fakes import TIME, charged, opening, published, submitted, task, whole_run

FAILED = [
    opening(),
    charged(0),
    published(0, SubmissionStatus.IMPORT_ERROR),
    RunClosed(TIME, CloseReason.AGENT_ENDED),
    RunFinished(TIME, RunStatus.NO_OK_SUBMIT),
]


def seen(events: list[Event], *, terminal: bool) -> str:
    """Return what is shown of a run while it is told, event by event."""
    screen = StringIO()
    console = Console(file=screen, force_terminal=terminal, width=120, color_system=None)
    view = RunView(console)
    view.opened(RunPaths(Path("runs/a")), fold(events[:1]))
    with view.live():
        for place in range(1, len(events)):
            view.observe(events[place], fold(events[: place + 1]))
            if terminal:
                console.print(view._draw())
    return screen.getvalue()


def test_a_terminal_sees_bars_and_submissions() -> None:
    """On a terminal the budget, the submissions, validation and held-out are drawn as they come."""
    text = seen(whole_run(), terminal=True)

    assert all(word in text for word in ("toy", "budget", "submission", "validation", "held-out", "selected", "8/8"))


@pytest.mark.parametrize(("seconds", "said"), [(None, False), (86_400.0, True)])
def test_a_limit_of_time_is_shown_at_the_start(seconds: float | None, *, said: bool) -> None:
    """Whoever starts a run sees how long its agent may take."""
    agent = AgentConfig("command", command=("sleep", "600"), allowance=Allowance(seconds=seconds))

    assert ("24h00m" in seen([opening(agent=agent)], terminal=False)) == said


def test_a_log_gets_a_line_where_one_is_due(snapshot: SnapshotAssertion) -> None:
    """Without a terminal a line is printed for each submission, the closing and the selection."""
    assert seen(whole_run(), terminal=False) == snapshot


@pytest.mark.parametrize("terminal", [1, 0])
def test_a_failed_submission_is_seen(terminal: int) -> None:
    """A policy that can't be loaded is told with its status."""
    assert "import_error" in seen(FAILED, terminal=bool(terminal))


@pytest.mark.parametrize(("failing", "said"), [((0, 1), "all failed"), ((1,), "1 failed"), ((), "ok")])
def test_failed_episodes_stand_beside_the_status(failing: tuple[int, ...], said: str) -> None:
    """The table of submissions says in how many episodes the policy failed, and where it failed in all."""
    events: list[Event] = [opening(), *submitted(0, [1.0, 2.0])]
    for place in failing:
        event = events[2 + place]
        assert isinstance(event, EpisodePlayed)
        events[2 + place] = replace(event, episode=replace(event.episode, failure=Failure(FailureReason.ERROR, "no")))
    screen = StringIO()
    Console(file=screen, width=120).print(submissions_table(fold(events)))

    assert screen.getvalue().splitlines()[1].rstrip().endswith(f" {said}")


def test_nothing_is_drawn_before_the_opening() -> None:
    """Before a run is open, there is a word for it."""
    assert "getting ready" in str(RunView(Console(file=StringIO()))._draw())


def shown(events: list[Event]) -> str:
    """Return what is said of a run at its end."""
    screen = StringIO()
    record = RunRecord(RunPaths(Path("runs/a")), tuple(events), fold(events), 0, ())
    show_outcome(Console(file=screen, width=120, color_system=None), record)
    return screen.getvalue()


def test_an_outcome() -> None:
    """The score comes with its standard error, its cases, and what to do next."""
    text = shown(whole_run())

    assert all(number in text for number in ("2.00 ± 0.58", "3 cases", "100%"))
    assert "verify --replay runs/a" in text


@pytest.mark.parametrize(
    ("events", "said"), [(FAILED, "no score: nothing playable was submitted"), (FAILED[:1], "unfinished, 0 of ")]
)
def test_an_outcome_without_a_score(events: list[Event], said: str) -> None:
    """A run without a score says why."""
    assert said in shown(events)


def test_a_score_stands_beside_others() -> None:
    """A run is compared with both anchors and the published entries of its environment, the best first."""
    first, *rest = whole_run()
    acrobot = replace(first, task=replace(task(), environment=catalog.load("acrobot")))  # type: ignore[type-var]
    rows = compare(fold([acrobot, *rest]))
    names = {row.name for row in rows}

    assert {"random anchor (ours)", "idle anchor (ours)", "reference policy (ours)", "this run (scripted)"} | {
        *paper().scores("acrobot")
    } == names
    assert sorted((row.mean for row in rows), reverse=True) == [row.mean for row in rows]
