"""The view of a suite: a live table on a terminal, lines elsewhere, and the tables at its end."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from time import monotonic

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from evopolicygym.analysis.ranking.bootstrap import HELD_OUT, held_out_sample
from evopolicygym.cli.output import LOG
from evopolicygym.core.run import Stage
from evopolicygym.core.text import duration, plus_minus, shell_word
from evopolicygym.environments.versions import is_installed
from evopolicygym.runs.progress import Clock, Pace, RunProgress
from evopolicygym.runs.suites.cross import format_level
from evopolicygym.runs.suites.play import ProcessStarted, Update
from evopolicygym.runs.suites.records import PlannedRunResult, PlannedRunVerdict
from evopolicygym.runs.suites.schedule import SuiteForecast
from evopolicygym.runs.suites.suite import PlannedRun

BAR_WIDTH = 40
STAGE_SHARES = {
    Stage.OPEN: (0.0, 0.6),
    Stage.CLOSED: (0.6, 0.9),
    Stage.SELECTED: (0.9, 1.0),
    Stage.FINISHED: (1.0, 1.0),
}
"""The approximate shares of a run's time at which each stage starts and ends."""
UNFINISHED = 0.99
"""The largest share counted of a run that has not ended."""
LEAST_SHARE = 0.03
"""The share of a suite to play before the remaining time is estimated."""
STAGES = {Stage.OPEN: "", Stage.CLOSED: "validation ", Stage.SELECTED: "held-out ", Stage.FINISHED: "held-out "}
STYLES = {
    PlannedRunVerdict.FINISHED: "green",
    PlannedRunVerdict.FAILED: "red",
    PlannedRunVerdict.INTERRUPTED: "yellow",
    PlannedRunVerdict.WAITING: "dim",
}
REASON_LENGTH = 20
"""The largest number of characters of a reason in a cell."""


def log_update(run: PlannedRun, update: Update) -> None:
    """Log a suite run's progress or result."""
    LOG.info("%s: %s", run, update)


class SuiteView:
    """Displays the progress of a suite."""

    def __init__(self, console: Console, results: Mapping[int, PlannedRunResult], clock: Clock = monotonic) -> None:
        self._console = console
        self._results = dict(results)
        self._progress: dict[int, RunProgress | None] = {}
        """The progress of each run being played; None until it is known."""
        self._clock = clock
        self._pace = Pace(self._done(), clock)
        self._forecast = SuiteForecast()
        unfinished = (result for result in results.values() if result.verdict is not PlannedRunVerdict.FINISHED)
        self._waiting = {result.planned.number: result.planned for result in unfinished}
        self._jobs = 1
        """The largest number of runs seen playing at once."""

    def observe(self, run: PlannedRun, update: Update) -> None:
        """Record a run's progress or result; without a terminal, print a line if one is due."""
        match update:
            case ProcessStarted():
                self._progress[run.number] = None
                self._waiting.pop(run.number, None)
                self._jobs = max(self._jobs, len(self._progress))
                self._forecast.begin(run, self._clock())
            case RunProgress():
                self._progress[run.number] = update
                self._forecast.proceed(run, estimate_share(update), self._clock())
                if not self._console.is_terminal and self._pace.is_due():
                    self._console.print(self._line(), soft_wrap=True, markup=False)
            case PlannedRunResult():
                self._progress.pop(run.number, None)
                self._results[run.number] = update
                self._forecast.end(run, self._clock(), finished=update.verdict is PlannedRunVerdict.FINISHED)
                if not self._console.is_terminal:
                    line = f"{self._finished()}/{len(self._results)} {run}: {result_text(update)}"
                    self._console.print(line, soft_wrap=True, markup=False)

    @contextmanager
    def live(self) -> Iterator[None]:
        """Draw on a terminal until the context ends."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, get_renderable=self._draw, refresh_per_second=4, transient=True):
            yield

    def _draw(self) -> RenderableType:
        total = len(self._results)
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(total=max(1, total), completed=self._done(), width=BAR_WIDTH),
            f"{self._finished()}/{total} runs",
            Text(self._time(), "dim"),
        )
        return Group(score_table(list(self._results.values()), dict(self._progress)), bar)

    def _line(self) -> str:
        """Return the suite's progress and that of each run being played."""
        playing = (
            f"{self._results[number].planned} {_format_progress(progress)}"
            for number, progress in self._progress.items()
        )
        return f"{self._finished()}/{len(self._results)} finished, {self._time()}; being played: {'; '.join(playing)}"

    def _time(self) -> str:
        """Return the elapsed time and, once it can be estimated, the remaining time."""
        done, total = self._done(), len(self._results)
        is_known = done - self._pace.before > LEAST_SHARE * total
        return ", ".join(filter(None, (duration(self._pace.elapsed), self._left() if is_known else "")))

    def _left(self) -> str:
        """Return the remaining time as text, at least a second; empty if all runs are played."""
        if not self._waiting and not self._progress:
            return ""
        left = self._forecast.seconds_left(self._waiting.values(), self._jobs, self._clock())
        return f"about {duration(max(1, ceil(left)))} left"

    def _finished(self) -> int:
        return sum(result.verdict is PlannedRunVerdict.FINISHED for result in self._results.values())

    def _done(self) -> float:
        """Return the number of finished runs plus the shares of others."""
        return sum(
            1.0
            if result.verdict is PlannedRunVerdict.FINISHED
            else estimate_share(self._progress.get(result.planned.number))
            for result in self._results.values()
        )


def score_table(results: Sequence[PlannedRunResult], playing: Mapping[int, RunProgress | None] | None = None) -> Table:
    """Return a table of environments and crossed levels by entries; a cell summarises all repeats."""
    title = Text(f" {HELD_OUT}", "dim")
    table = Table(box=None, padding=(0, 1), header_style="dim", title=title, title_justify="left")
    table.add_column("")
    for knob in _crossed_options(results):
        table.add_column(knob)
    entries = list(dict.fromkeys(result.planned.entry for result in results))
    for entry in entries:
        table.add_column(Text(entry), justify="right")
    rows: dict[tuple[str, ...], list[PlannedRunResult]] = {}
    for result in results:
        rows.setdefault((result.planned.environment, *_levels(result)), []).append(result)
    for names, row in rows.items():
        cells = (_cell([result for result in row if result.planned.entry == entry], playing or {}) for entry in entries)
        table.add_row(*map(Text, names), *cells)
    return table


def failures(results: Sequence[PlannedRunResult]) -> Table:
    """Return a table of unfinished runs, with the reasons and how to continue."""
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("not finished", "why", "how to continue"):
        table.add_column(heading, overflow="fold")
    for result in results:
        if result.verdict is not PlannedRunVerdict.FINISHED:
            why = Text(result_text(result), STYLES[result.verdict])
            table.add_row(Text(str(result.planned)), why, Text(f"the same command{_resume_hint(result)}", "dim"))
    return table


def plan_table(results: Sequence[PlannedRunResult]) -> Table:
    """Return a table of all runs in the order in which they start."""
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("environment", "agent", *_crossed_options(results), "repeat", "seed", f"action ({HELD_OUT})"):
        table.add_column(heading)
    for result in results:
        run = result.planned
        texts = (run.environment, run.entry, *_levels(result), str(run.repeat), str(run.config.seed))
        table.add_row(*map(Text, texts), Text(_planned_action(result), "dim"))
    return table


def result_text(result: PlannedRunResult) -> str:
    """Format a run's result in a line."""
    match result.verdict:
        case PlannedRunVerdict.FINISHED:
            score = plus_minus(result.score, result.standard_error) if result.score is not None else "no score"
            return f"{score} (agent: {result.reason})" if result.reason else score
        case PlannedRunVerdict.FAILED:
            message = result.message.partition("\n")[0]
            return f"failed: {result.reason}" + (f": {message}" if message else "")
        case _:
            return result.verdict.value


def _crossed_options(results: Sequence[PlannedRunResult]) -> list[str]:
    """Return the crossed options."""
    return list(results[0].planned.levels) if results else []


def _levels(result: PlannedRunResult) -> list[str]:
    return [format_level(level) for level in result.planned.levels.values()]


def _planned_action(result: PlannedRunResult) -> str:
    if result.verdict is PlannedRunVerdict.FINISHED:
        return f"kept: {result_text(result)}"
    missing = "" if is_installed(result.planned.config.task.environment) else ", but its simulator is not installed"
    return (f"resumed: {result.root}" if result.root else "new") + missing


def _resume_hint(result: PlannedRunResult) -> str:
    return f", or: evopolicygym resume {shell_word(result.root)}" if result.root else ""


def _cell(results: Sequence[PlannedRunResult], playing: Mapping[int, RunProgress | None]) -> Text:
    """Return a cell: an entry's mean score in an environment, and unfinished runs."""
    finished = [result for result in results if result.verdict is PlannedRunVerdict.FINISHED]
    parts = [Text(_scores(finished), STYLES[PlannedRunVerdict.FINISHED])] if finished else []
    for result in results:
        number = result.planned.number
        if number in playing:
            parts.append(Text(_format_progress(playing[number]), "bold"))
        elif result.verdict is PlannedRunVerdict.FAILED:
            parts.append(Text(f"failed: {result.reason[:REASON_LENGTH]}", STYLES[result.verdict]))
    waiting = [
        result for result in results if result.verdict in {PlannedRunVerdict.WAITING, PlannedRunVerdict.INTERRUPTED}
    ]
    n_waiting = sum(result.planned.number not in playing for result in waiting)
    if n_waiting:
        word = waiting[0].verdict.value
        parts.append(Text(word if len(results) == 1 else f"{n_waiting} {word}", STYLES[waiting[0].verdict]))
    return Text(", ").join(parts)


def _scores(finished: Sequence[PlannedRunResult]) -> str:
    """Return the held-out mean over repeats, computed as in the leaderboard."""
    anchor = finished[0].planned.config.task.environment.random_anchor
    sample = held_out_sample([("", result.returns) for result in finished], anchor.mean if anchor else None)
    if sample is None:
        return "no score"
    score = plus_minus(sample.mean, sample.standard_error if sample.is_estimable else None)
    if len(finished) == 1:
        return score
    n_unscored = sum(not result.returns for result in finished)
    return f"{score} ({len(finished)}{f', {n_unscored} without a score' if n_unscored else ''})"


def _format_progress(progress: RunProgress | None) -> str:
    return "opening" if progress is None else f"{STAGES[progress.stage]}{progress.done}/{progress.total}"


def estimate_share(progress: RunProgress | None) -> float:
    """Return the approximate share of a run's time that is over."""
    if progress is None:
        return 0.0
    first, last = STAGE_SHARES[progress.stage]
    return min(first + (last - first) * progress.done / max(1, progress.total), UNFINISHED)
