"""Tables of entries by tasks: runs pooled as repeats of an entry, together with shipped tables.

Only comparable runs share a table; the others get tables of their own, and no run is refused.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evopolicygym.analysis.published.score_tables import (
    AGENT,
    ANCHOR,
    PublishedEntry,
    PublishedTable,
    PublishedTask,
)
from evopolicygym.analysis.ranking.bootstrap import (
    Interval,
    Sample,
    half_width,
    held_out_sample,
    joint_freedom,
    rate_interval,
    share_interval,
)
from evopolicygym.analysis.ranking.comparability import (
    TableFilter,
    cases_notes,
    comparability_notes,
    distinct_runs,
    group_comparable,
    label_runs,
    property_of,
    shared_seeds,
)
from evopolicygym.analysis.ranking.known_scale import KnownScale, KnownScores, known_scale
from evopolicygym.analysis.ranking.noise import NoiseFloor, noise_floor, variance_components
from evopolicygym.analysis.ranking.run_groups import RunGroups, find_groups
from evopolicygym.analysis.results import count_early, early_notes, environment_notes, record_notes
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.rollout import Isolation, is_unverified
from evopolicygym.core.score import mean
from evopolicygym.core.task import Anchor, TaskInterface, TaskKind
from evopolicygym.records.rows import RunRow

RANDOM = "Uniform random"
MISSING_SCORES = (
    "A repeat without a checkpoint to score counts as uniform random, or as the worst other repeat.",
    "An entry without any score on a task has no rank there; in means over tasks it has 0 for that task.",
)
"""Notes on runs without a score."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task of a table."""

    name: str
    family: str
    kind: TaskKind
    idle: Anchor | None = None
    """The idle action's mean, if a run's record has it."""
    known: KnownScale | None = None
    """From the better of random and idle play to the best known score; None if either is unknown."""
    noise: NoiseFloor | None = None
    """How far two runs of one agent lie apart, from the runs of the table; None without repeats."""


@dataclass(frozen=True, slots=True)
class Optimism:
    """How far validation means of selected checkpoints are above their held-out means."""

    value: float
    standard_error: float | None
    """Over repeats, and over the validation and held-out cases that they share; None if it is unknown."""
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class RareFailures:
    """Runs that fail as a whole, of which no repeat is one."""

    chance: float
    """The largest chance of a run to fail that the repeats don't exclude (Clopper and Pearson 1934)."""
    low: float
    """The low end of the mean's interval if runs fail so often, and a failing run is as good as uniform random."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of an entry on a task."""

    mean: float
    """Not a number where none of its runs has a score."""
    standard_error: float | None
    """None if only a mean was published, a single case was played, or all returns are equal."""
    runs: tuple[RunRow, ...] = ()
    """Its repeats; empty if it was not played here."""
    sample: Sample | None = None
    """The sample of the intervals; None without cases to draw from."""
    published_success_rate: float | None = None
    """The success rate, if only that was published."""

    @property
    def has_score(self) -> bool:
        """Whether it was published, or any of its runs has a score."""
        return not self.runs or self.sample is not None

    @property
    def unscored(self) -> int:
        """Runs that ended without a checkpoint to score."""
        return sum(not run.held_out_returns for run in self.runs)

    @property
    def early(self) -> Counter[str]:
        """Runs that ended with episodes unspent, by what ended them."""
        return count_early(self.runs)

    @property
    def is_repeated(self) -> bool:
        """Whether there are two runs at least."""
        return len(self.runs) > 1

    @property
    def interval(self) -> Interval | None:
        """The mean's 95 % interval; that of two groups where its runs fall into such; None if it is unknown."""
        if self.sample is None or not self.sample.is_estimable:
            return None
        if self.groups is None:
            return self.sample.interval()
        return self.sample.with_rare(self.groups.interval(self.sample.cases_half_width))

    @property
    def rare_failures(self) -> RareFailures | None:
        """What failing runs would cost that are too rare to be among the repeats; None if some were, or may be."""
        random = next((run.random_anchor.mean for run in self.runs if run.random_anchor), None)
        if self.sample is None or random is None or self.groups or not self.mean > random:
            return None
        chance = share_interval(0.0, len(self.runs)).high
        low = self.mean - chance * (self.mean - random)
        return RareFailures(chance, min(low, self.interval.low) if self.interval else low)

    @property
    def groups(self) -> RunGroups | None:
        """The two groups that its runs fall into, where the rule finds such."""
        return find_groups(self.sample.runs) if self.sample else None

    @property
    def covers(self) -> str | None:
        """The sources that the interval covers; None without an interval."""
        return self.sample.covers if self.sample and self.interval else None

    @property
    def selection_optimism(self) -> Optimism | None:
        """Validation mean less held-out mean of selected checkpoints, over repeats with both; None without any.

        All repeats share their validation cases and their held-out cases. The mean's variance over both is that over
        the held-out cases, times 1 + held-out cases / validation cases, as cases of both splits vary alike.
        """
        runs = [run for run in self.runs if run.selection_optimism is not None]
        if not runs or self.sample is None:
            return None
        optimisms = np.array([run.selection_optimism for run in runs], dtype=float)
        held_out = max(block.returns.shape[1] for block in self.sample.blocks)
        validation = min(run.validation_cases or 0 for run in runs) or 1
        of_runs = float(optimisms.var(ddof=1)) / len(optimisms) if len(optimisms) > 1 else 0.0
        variances = of_runs, self.sample.of_cases * (1 + held_out / validation)
        freedoms = len(optimisms) - 1.0, min(held_out, validation) - 1.0
        value, total = float(optimisms.mean()), sum(variances)
        if not (total > 0 and math.isfinite(total)) or min(held_out, validation) == 1:
            return Optimism(value, None, None)
        reach = half_width(variances, freedoms)
        return Optimism(value, math.sqrt(total), Interval(value - reach, value + reach))

    @property
    def success_rate(self) -> float | None:
        """The mean over repeats; a repeat without a score has uniform random's, or the worst other's if that is lower.

        None if the environment knows no success, or no repeat has a score.
        """
        known = [run.success_rate for run in self.runs if run.held_out_returns and run.success_rate is not None]
        if not known:
            return None if self.runs else self.published_success_rate
        anchors = [run.random_anchor.success_rate for run in self.runs if run.random_anchor]
        worst = min([*known, *(rate for rate in anchors if rate is not None)])
        return mean([*known, *([worst] * self.unscored)])

    @property
    def success_interval(self) -> Interval | None:
        """The success rate's 95 % interval over runs and cases; None if it was only published.

        The variance over cases is the share of a return's variance that cases have, of the variance of a single trial.
        """
        rates = [run.success_rate for run in self.runs if run.held_out_returns and run.success_rate is not None]
        rate = self.success_rate
        if not rates or rate is None or self.sample is None:
            return None
        cases = max(block.returns.shape[1] for block in self.sample.blocks)
        parts = variance_components([self.sample])
        of_cases = parts.cases / parts.within if parts and parts.within > 0 else 1.0
        variances = [
            float(np.var(rates, ddof=1)) / len(rates) if len(rates) > 1 else 0.0,
            of_cases * rate * (1 - rate) / cases,
        ]
        return rate_interval(rate, sum(variances), joint_freedom(variances, [len(rates) - 1.0, cases - 1.0]), cases)


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table."""

    label: str
    kind: str
    """``agent``, ``anchor`` for uniform random, or what a shipped table calls it."""
    cells: Mapping[str, Cell]
    """The results by task."""
    source: str = ""
    """The source of a shipped entry; empty for an entry that was played here."""

    @property
    def runs(self) -> tuple[RunRow, ...]:
        """All its runs."""
        return tuple(run for cell in self.cells.values() for run in cell.runs)

    @property
    def harness(self) -> str | None:
        """The agent's name, independent of the label; None if only means were published."""
        return _one_of(run.agent_kind for run in self.runs)

    @property
    def model(self) -> str | None:
        """The model of its agent; None if it has none, or only means were published."""
        return _one_of(run.model for run in self.runs)

    @property
    def effort(self) -> str | None:
        """The model's reasoning effort; None if none was given, or only means were published."""
        return _one_of(run.effort for run in self.runs)

    @property
    def is_repeated(self) -> bool:
        """Whether it was run twice at least on each of its tasks; nothing is decided about an agent by a single run."""
        return all(cell.is_repeated for cell in self.cells.values())

    @property
    def has_score(self) -> bool:
        """Whether it has a score on any of its tasks."""
        return any(cell.has_score for cell in self.cells.values())

    @property
    def is_ours(self) -> bool:
        """Whether it ships as runs, which were played with this program, and not as means that others published."""
        return self.is_shipped and bool(self.runs)

    @property
    def shown(self) -> str:
        """The name in tables, which marks our shipped runs."""
        return f"{self.label} (ours)" if self.is_ours else self.label

    @property
    def is_shipped(self) -> bool:
        """Whether it comes from a shipped table, as means or as runs."""
        return bool(self.source)


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Entries by tasks."""

    tasks: tuple[TaskRow, ...]
    entries: tuple[Entry, ...]
    """The random anchor last, where there is one."""
    notes: tuple[str, ...] = ()
    """The notes for readers."""

    @property
    def anchor(self) -> Entry | None:
        """Uniform random."""
        return next((entry for entry in self.entries if entry.kind == ANCHOR), None)

    def entry(self, label: str) -> Entry:
        """Return an entry by its label; raise ``UnknownName`` for an unknown label."""
        for entry in self.entries:
            if entry.label == label:
                return entry
        raise UnknownName("entry", label, [entry.label for entry in self.entries])


def score_tables(
    runs: Sequence[RunRow], shipped: Sequence[PublishedTable], choice: TableFilter | None = None
) -> dict[str, ScoreTable]:
    """Return a table for each group of comparable runs, by title, each with the shipped tables."""
    choice = choice or TableFilter()
    groups = group_comparable(runs, shipped, choice)
    return {
        group.title: _table(label_runs(group.runs, choice.by), shipped, choice, is_comparable=not choice.mix)
        for group in groups
    }


def score_table(
    runs: Iterable[RunRow], shipped: Sequence[PublishedTable], choice: TableFilter | None = None
) -> ScoreTable:
    """Return the table of runs and shipped tables; raise ``UsageError`` if they are not comparable."""
    choice = choice or TableFilter()
    return _table(label_runs(tuple(runs), choice.by), shipped, choice)


def _table(
    runs: Sequence[RunRow], shipped: Sequence[PublishedTable], choice: TableFilter, *, is_comparable: bool = False
) -> ScoreTable:
    """Return the table of labelled runs; ``is_comparable`` skips the search for differences."""
    runs, notes = _of_the_same_games(runs, shipped)
    tasks = _tasks(runs, shipped)
    outside = sorted({run.task for run in runs} - {task.name for task in tasks})
    if outside:
        notes.append(
            f"Left out, as {' and '.join(table.source for table in shipped)} has none of it: {', '.join(outside)}."
        )
    if choice.family is not None:
        families = sorted({task.family for task in tasks})
        if choice.family not in families:
            raise UnknownName("family", choice.family, families)
        tasks = tuple(task for task in tasks if task.family == choice.family)
    names = {task.name for task in tasks}
    runs = tuple(run for run in runs if run.task in names)
    notes += cases_notes(runs, choice.by) if is_comparable else comparability_notes(runs, choice.by, mix=choice.mix)
    distinct, repeated = distinct_runs(runs)
    runs = tuple(distinct)
    notes += [*repeated, *shared_seeds(runs)]
    entries = [*_pool_entries(runs, AGENT), *_published(runs, shipped, names)]
    anchor = _anchor(runs, shipped, names)
    if not entries:
        raise UsageError("There is nothing to show: no finished run and no shipped table (--tables).")
    notes += [*_notes_on_missing_scores(entries), *_notes_on_groups(entries)]
    if shipped and runs:
        notes.append("Published means, and shipped runs of other experiments, are of other cases, perhaps versions.")
    notes += [*_texts(runs, shipped), *early_notes(runs), *environment_notes(runs), *record_notes(runs)]
    if any(run.split == "public" for run in runs):
        notes.append("Some runs played the public split: its cases are known to everybody.")
    if any(run.revealed for run in runs):
        notes.append("Some runs were begun after their cases were revealed.")
    if any(is_unverified(run.isolation or "") for run in runs):
        notes.append("Some runs were played at isolation none: unverified.")
    if weaker := sorted({level for run in runs if (level := run.isolation) and Isolation.parse(level).missing}):
        notes.append(f"Some runs were played with a wall waived: isolation {', '.join(weaker)}.")
    if changed := sorted({entry.label for entry in entries if len({run.programs for run in entry.runs}) > 1}):
        notes.append(f"Not all runs of an entry were played by the same program files: {', '.join(changed)}.")
    notes += [
        f"Runs of {entry.label} asked models at several servers: {', '.join(servers)}."
        for entry in entries
        if len(servers := sorted({run.model_server for run in entry.runs if run.model_server})) > 1
    ]
    if within := sorted({entry.label for entry in entries if any(run.program_changes for run in entry.runs)}):
        notes.append(f"The agent's program changed within a run that was resumed: {', '.join(within)}.")
    return ScoreTable(
        tuple(replace(task, noise=_noise(task.name, entries)) for task in tasks),
        (*entries, *([anchor] if anchor else [])),
        tuple(notes),
    )


def _noise(task: str, entries: Sequence[Entry]) -> NoiseFloor | None:
    """Return the noise floor of a task, from the runs of the entries that were played for the table, else shipped."""
    played = [entry for entry in entries if not entry.is_shipped] or entries
    cells = (entry.cells[task] for entry in played if task in entry.cells)
    return noise_floor([cell.sample for cell in cells if cell.sample])


def _of_the_same_games(
    runs: Sequence[RunRow], shipped: Sequence[PublishedTable]
) -> tuple[tuple[RunRow, ...], list[str]]:
    """Return the runs of the environments that the shipped tables mean, and notes on the runs that are left out."""
    environments = {name: (task.environment, table.source) for table in shipped for name, task in table.tasks.items()}
    kept, notes = [], []
    for run in runs:
        environment, source = environments.get(run.task, (run.environment, ""))
        if environment.is_same(run.environment):
            kept.append(run)
        else:
            notes.append(
                f"Left out, as {source} means another environment by {run.task}: runs of {run.environment}, not of "
                f"{environment}."
            )
    return tuple(kept), list(dict.fromkeys(notes))


def _texts(runs: Sequence[RunRow], shipped: Sequence[PublishedTable]) -> Iterator[str]:
    """Yield a note on the texts that agents read, if published rows state theirs."""
    read = sorted({str(property_of(run, "text")) for run in runs})
    published = [f"{table.text} ({table.source})" for table in shipped if table.text]
    if read and published:
        yield f"Text of the tasks: {' and '.join(read)} (runs); {'; '.join(published)}."
    shown = sorted({str(property_of(run, "interface")) for run in runs})
    if shown not in ([], [TaskInterface.STANDARD]) and shipped:
        yield f"Interface of the tasks: {' and '.join(shown)} (runs); {TaskInterface.STANDARD} (published rows)."


def _tasks(runs: Sequence[RunRow], shipped: Sequence[PublishedTable]) -> tuple[TaskRow, ...]:
    """Return the tasks of the shipped tables where there are some, else those of the runs."""
    played = {run.task: run for run in runs}

    def row(name: str, of: PublishedTask | RunRow) -> TaskRow:
        run = played.get(name)
        scores = KnownScores(run.random_anchor, run.idle_anchor, run.reference_anchor) if run else None
        idle = run.idle_anchor if run else None
        return TaskRow(name, of.family, of.kind or TaskKind.UNKNOWN, idle, known_scale(name, of.environment, scores))

    shipped_rows = {name: row(name, of) for table in shipped for name, of in table.tasks.items()}
    if not shipped_rows:
        rows = (row(name, run) for name, run in played.items())
        return tuple(sorted(rows, key=lambda task: (task.family, task.name)))
    return tuple(shipped_rows.values())


def _one_of(texts: Iterable[str | None]) -> str | None:
    return ", ".join(sorted({text for text in texts if text})) or None


def _notes_on_missing_scores(entries: Sequence[Entry]) -> Iterator[str]:
    cells = [cell for entry in entries for cell in entry.cells.values()]
    if any(cell.has_score and cell.unscored for cell in cells):
        yield MISSING_SCORES[0]
    if any(not cell.has_score for cell in cells):
        yield MISSING_SCORES[1]


def _notes_on_groups(entries: Sequence[Entry]) -> Iterator[str]:
    bimodal = [
        (entry, name, groups) for entry in entries for name, cell in entry.cells.items() if (groups := cell.groups)
    ]
    if not bimodal:
        return
    listed = (
        f"{entry.shown} on {name} ({groups.low_runs} and {groups.high_runs}; {groups.repeats_needed} repeats)"
        for entry, name, groups in bimodal
    )
    yield (
        "Runs fall into two groups, as if a task were solved or not; the mean's interval is then over which group a "
        f"run falls in, and takes so many repeats to reach a quarter of their distance: {', '.join(listed)}."
    )


def _pool_entries(runs: Sequence[RunRow], kind: str, source: str = "") -> list[Entry]:
    pooled: dict[str, dict[str, list[RunRow]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        pooled[run.agent][run.task].append(run)
    return [
        Entry(label, kind, {task: _cell(repeats) for task, repeats in tasks.items()}, source)
        for label, tasks in pooled.items()
    ]


def _cell(repeats: Sequence[RunRow]) -> Cell:
    random = next((run.random_anchor.mean for run in repeats if run.random_anchor), None)
    sample = held_out_sample([((run.task, run.commitment), run.held_out_returns) for run in repeats], random)
    if sample is None:
        return Cell(math.nan, None, tuple(repeats))
    error = sample.standard_error if sample.is_estimable and sample.has_spread else None
    return Cell(sample.mean, error, tuple(repeats), sample)


def _published(runs: Sequence[RunRow], shipped: Sequence[PublishedTable], names: set[str]) -> list[Entry]:
    labels, entries = {run.agent for run in runs}, []
    for table in shipped:
        means = [Entry(entry.name, entry.kind, _means(entry, names), table.source) for entry in table.entries]
        played = _pool_entries([run for run in table.runs if run.task in names], table.kind, table.source)
        for entry in (*means, *played):
            if entry.kind == ANCHOR or not entry.cells:
                continue
            label = f"{entry.label} [{table.source}]" if entry.label in labels else entry.label
            labels.add(label)
            entries.append(replace(entry, label=label))
    return entries


def _means(entry: PublishedEntry, names: set[str]) -> dict[str, Cell]:
    return {
        task: Cell(mean, entry.standard_errors.get(task), published_success_rate=entry.success_rates.get(task))
        for task, mean in entry.scores.items()
        if task in names
    }


def _anchor(runs: Sequence[RunRow], shipped: Sequence[PublishedTable], names: set[str]) -> Entry | None:
    """Return uniform random: as runs' specs have it, else as the last shipped table has it, else its runs' specs."""
    cells = _anchor_cells(run for table in shipped for run in table.runs)
    for table in shipped:
        for entry in table.entries:
            cells |= _means(entry, names) if entry.kind == ANCHOR else {}
    cells |= _anchor_cells(runs)
    cells = {task: cell for task, cell in cells.items() if task in names}
    return Entry(RANDOM, ANCHOR, cells, "anchor") if cells else None


def _anchor_cells(runs: Iterable[RunRow]) -> dict[str, Cell]:
    anchors = {run.task: run.random_anchor for run in runs if run.random_anchor}
    return {
        task: Cell(anchor.mean, anchor.standard_error, published_success_rate=anchor.success_rate)
        for task, anchor in anchors.items()
    }
