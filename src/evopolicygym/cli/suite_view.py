"""What is seen of a suite: a live table while it is played, lines where there is no terminal, and its end."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from shlex import quote
from time import monotonic

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from evopolicygym.analysis.ranking.bootstrap import HELD_OUT, held_out_sample
from evopolicygym.core.run import Stage
from evopolicygym.core.text import duration, plus_minus
from evopolicygym.environments.versions import is_installed
from evopolicygym.runs.progress import Clock, Pace, RunProgress
from evopolicygym.runs.suites.cross import level_text
from evopolicygym.runs.suites.forecast import SuiteForecast
from evopolicygym.runs.suites.play import ProcessStarted, Update
from evopolicygym.runs.suites.records import PlannedRunResult, PlannedRunVerdict
from evopolicygym.runs.suites.suite import PlannedRun

BAR_WIDTH = 40
WORTH = {Stage.OPEN: (0.0, 0.6), Stage.CLOSED: (0.6, 0.9), Stage.SELECTED: (0.9, 1.0), Stage.FINISHED: (1.0, 1.0)}
"""About which part of a run's time each stage begins and ends with."""
UNFINISHED = 0.99
"""The most that is counted of a run that has yet to end, if all of its episodes were played."""
TELLING = 0.03
"""How much of a suite must have been played before the time that is left is estimated."""
STAGES = {Stage.OPEN: "", Stage.CLOSED: "validation ", Stage.SELECTED: "held-out ", Stage.FINISHED: "held-out "}
STYLES = {
    PlannedRunVerdict.FINISHED: "green",
    PlannedRunVerdict.FAILED: "red",
    PlannedRunVerdict.INTERRUPTED: "yellow",
    PlannedRunVerdict.WAITING: "dim",
}
REASON = 20
"""The most characters of a reason that stand in a cell."""


class SuiteView:
    """Follows a suite and draws where it stands."""

    def __init__(self, console: Console, results: Mapping[int, PlannedRunResult], clock: Clock = monotonic) -> None:
        self._console = console
        self._results = dict(results)
        self._standing: dict[int, RunProgress | None] = {}
        """Of each run that is being played; None until it says how far it is."""
        self._clock = clock
        self._pace = Pace(self._done(), clock)
        self._forecast = SuiteForecast()
        unfinished = (result for result in results.values() if result.verdict is not PlannedRunVerdict.FINISHED)
        self._waiting = {result.planned.number: result.planned for result in unfinished}
        self._jobs = 1
        """The most runs that were seen being played at once."""

    def observe(self, run: PlannedRun, update: Update) -> None:
        """Take note of how far a run is or of its result; without a terminal, print a line where one is due."""
        match update:
            case ProcessStarted():
                self._standing[run.number] = None
                self._waiting.pop(run.number, None)
                self._jobs = max(self._jobs, len(self._standing))
                self._forecast.begin(run, self._clock())
            case RunProgress():
                self._standing[run.number] = update
                self._forecast.proceed(run, part_of(update), self._clock())
                if not self._console.is_terminal and self._pace.is_due():
                    self._console.print(self._line(), soft_wrap=True, markup=False)
            case PlannedRunResult():
                self._standing.pop(run.number, None)
                self._results[run.number] = update
                self._forecast.end(run, self._clock(), finished=update.verdict is PlannedRunVerdict.FINISHED)
                if not self._console.is_terminal:
                    line = f"{self._finished()}/{len(self._results)} {run}: {plain(update)}"
                    self._console.print(line, soft_wrap=True, markup=False)

    @contextmanager
    def live(self) -> Iterator[None]:
        """Draw on a terminal until it is over."""
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
        return Group(score_table(list(self._results.values()), dict(self._standing)), bar)

    def _line(self) -> str:
        """Return how far the suite is, and each run that is being played."""
        playing = (f"{self._results[number].planned} {_stands(one)}" for number, one in self._standing.items())
        return f"{self._finished()}/{len(self._results)} finished, {self._time()}; being played: {'; '.join(playing)}"

    def _time(self) -> str:
        """Return how long the suite has been played, and the time that is left once enough was played to tell."""
        done, total = self._done(), len(self._results)
        enough = done - self._pace.before > TELLING * total
        return ", ".join(filter(None, (duration(self._pace.elapsed), self._left() if enough else "")))

    def _left(self) -> str:
        """Return in words how long the suite will still take, never less than a second; empty where all is played."""
        if not self._waiting and not self._standing:
            return ""
        left = self._forecast.seconds_left(self._waiting.values(), self._jobs, self._clock())
        return f"about {duration(max(1, ceil(left)))} left"

    def _finished(self) -> int:
        return sum(result.verdict is PlannedRunVerdict.FINISHED for result in self._results.values())

    def _done(self) -> float:
        """Return how many runs are done, parts of runs included."""
        return sum(
            1.0 if result.verdict is PlannedRunVerdict.FINISHED else part_of(self._standing.get(result.planned.number))
            for result in self._results.values()
        )


def score_table(results: Sequence[PlannedRunResult], playing: Mapping[int, RunProgress | None] | None = None) -> Table:
    """Return a table of environments, and levels of what is crossed, by entries; a cell holds all repeats of one."""
    title = Text(f" {HELD_OUT}", "dim")
    table = Table(box=None, padding=(0, 1), header_style="dim", title=title, title_justify="left")
    table.add_column("")
    for knob in _knobs(results):
        table.add_column(knob)
    entries = list(dict.fromkeys(result.planned.entry for result in results))
    for entry in entries:
        table.add_column(Text(entry), justify="right")
    rows: dict[tuple[str, ...], list[PlannedRunResult]] = {}
    for result in results:
        rows.setdefault((result.planned.environment, *_levels(result)), []).append(result)
    for names, here in rows.items():
        cells = (
            _cell([result for result in here if result.planned.entry == entry], playing or {}) for entry in entries
        )
        table.add_row(*map(Text, names), *cells)
    return table


def failures(results: Sequence[PlannedRunResult]) -> Table:
    """Return a table of what was not finished, why, and how to go on."""
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("not finished", "why", "how to go on"):
        table.add_column(heading, overflow="fold")
    for result in results:
        if result.verdict is not PlannedRunVerdict.FINISHED:
            why = Text(plain(result), STYLES[result.verdict])
            table.add_row(Text(str(result.planned)), why, Text(f"the same command{_alone(result)}", "dim"))
    return table


def plan_table(results: Sequence[PlannedRunResult]) -> Table:
    """Return a table of all runs, in the order in which they begin."""
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("environment", "agent", *_knobs(results), "repeat", "seed", f"action ({HELD_OUT})"):
        table.add_column(heading)
    for result in results:
        run = result.planned
        texts = (run.environment, run.entry, *_levels(result), str(run.repeat), str(run.config.seed))
        table.add_row(*map(Text, texts), Text(_to_be_done(result), "dim"))
    return table


def plain(result: PlannedRunResult) -> str:
    """Return in a line what has come of a run."""
    match result.verdict:
        case PlannedRunVerdict.FINISHED:
            score = plus_minus(result.score, result.standard_error) if result.score is not None else "no score"
            return f"{score} (agent: {result.reason})" if result.reason else score
        case PlannedRunVerdict.FAILED:
            said = result.message.partition("\n")[0]
            return f"failed: {result.reason}" + (f": {said}" if said else "")
        case _:
            return result.verdict.value


def _knobs(results: Sequence[PlannedRunResult]) -> list[str]:
    """Return what the suite crosses."""
    return list(results[0].planned.levels) if results else []


def _levels(result: PlannedRunResult) -> list[str]:
    return [level_text(level) for level in result.planned.levels.values()]


def _to_be_done(result: PlannedRunResult) -> str:
    if result.verdict is PlannedRunVerdict.FINISHED:
        return f"kept: {plain(result)}"
    missing = "" if is_installed(result.planned.config.task.environment) else ", but its simulator is not installed"
    return (f"resumed: {result.root}" if result.root else "new") + missing


def _alone(result: PlannedRunResult) -> str:
    return f", or: evopolicygym resume {quote(str(result.root))}" if result.root else ""


def _cell(results: Sequence[PlannedRunResult], playing: Mapping[int, RunProgress | None]) -> Text:
    """Return where one entry stands in one environment: its mean score, and what is not finished."""
    finished = [result for result in results if result.verdict is PlannedRunVerdict.FINISHED]
    parts = [Text(_scores(finished), STYLES[PlannedRunVerdict.FINISHED])] if finished else []
    for result in results:
        place = result.planned.number
        if place in playing:
            parts.append(Text(_stands(playing[place]), "bold"))
        elif result.verdict is PlannedRunVerdict.FAILED:
            parts.append(Text(f"failed: {result.reason[:REASON]}", STYLES[result.verdict]))
    waiting = [
        result for result in results if result.verdict in {PlannedRunVerdict.WAITING, PlannedRunVerdict.INTERRUPTED}
    ]
    still = sum(result.planned.number not in playing for result in waiting)
    if still:
        word = waiting[0].verdict.value
        parts.append(Text(word if len(results) == 1 else f"{still} {word}", STYLES[waiting[0].verdict]))
    return Text(", ").join(parts)


def _scores(finished: Sequence[PlannedRunResult]) -> str:
    """Return the held-out mean over repeats, as the leaderboard has it."""
    anchor = finished[0].planned.config.task.environment.random_anchor
    sample = held_out_sample([("", result.returns) for result in finished], anchor.mean if anchor else None)
    if sample is None:
        return "no score"
    score = plus_minus(sample.mean, sample.standard_error if sample.is_estimable else None)
    if len(finished) == 1:
        return score
    none = sum(not result.returns for result in finished)
    return f"{score} ({len(finished)}{f', {none} without a score' if none else ''})"


def _stands(standing: RunProgress | None) -> str:
    return "opening" if standing is None else f"{STAGES[standing.stage]}{standing.done}/{standing.total}"


def part_of(standing: RunProgress | None) -> float:
    """Return about which part of a run's time is over."""
    if standing is None:
        return 0.0
    first, last = WORTH[standing.stage]
    return min(first + (last - first) * standing.done / max(1, standing.total), UNFINISHED)
