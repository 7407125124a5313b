"""``evopolicygym.leaderboard``, ``compare``, ``headroom`` and ``effects``: tables of many runs."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from evopolicygym.analysis.conduct.audit_run import (
    Conduct,
    audit_runs,
    conduct_counts,
    conduct_notes,
    conduct_table,
    load_detectors,
    serious_column,
)
from evopolicygym.analysis.effects.effects import Effects
from evopolicygym.analysis.effects.effects import effects as effects_of_runs
from evopolicygym.analysis.headroom.headroom import Headroom, Surroundings
from evopolicygym.analysis.headroom.headroom import headroom as headroom_of
from evopolicygym.analysis.published.score_tables import OtherFigures, load_published, shipped
from evopolicygym.analysis.ranking.aggregates import Aggregates, aggregates, aggregates_document, aggregates_table
from evopolicygym.analysis.ranking.comparability import TableFilter
from evopolicygym.analysis.ranking.leaderboard import Leaderboard, Standing
from evopolicygym.analysis.ranking.leaderboard import leaderboard as ranked
from evopolicygym.analysis.ranking.pairing import Pairing, pairing
from evopolicygym.analysis.ranking.score_table import Entry, ScoreTable, TaskRow, score_table, score_tables
from evopolicygym.analysis.ranking.task_scale import BEST
from evopolicygym.analysis.results import Results, load_results, results_of_nonce
from evopolicygym.analysis.tables.contents import (
    add_title,
    leaderboards_document,
    optimism_table,
    overall_table,
    pairing_document,
    pairing_table,
    scores_table,
    scores_tables,
    standings_table,
    standings_tables,
    task_scores_table,
    task_tables,
)
from evopolicygym.analysis.tables.published import (
    figures_document,
    figures_in_long,
    figures_table,
    harness_tables,
    harnesses_table,
    with_figures,
    with_note_of_figures,
)
from evopolicygym.analysis.tables.studies import (
    differences_table,
    effects_document,
    effects_tables,
    headroom_table,
    headrooms_document,
)
from evopolicygym.analysis.tables.table import (
    Table,
    join_tables,
    side_by_side,
)
from evopolicygym.api.read.table_set import TableSet
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import RecordError, UnknownName, UsageError
from evopolicygym.core.text import printable
from evopolicygym.records.bundle import is_bundle
from evopolicygym.records.experiment import missing_runs
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import Paths, Problem, find_paths
from evopolicygym.records.rows import RunRow
from evopolicygym.records.run_document import read_summary

RANKS = "ranks"
"""The table that a leaderboard shows by default."""


@dataclass(frozen=True, slots=True)
class LeaderboardGroup:
    """The leaderboard of one group of runs that may be compared."""

    title: str
    """What sets its runs apart from those of other groups; empty where there is one group."""
    leaderboard: Leaderboard
    table: ScoreTable
    """The table that is ranked: entries by tasks."""
    normalise: str = BEST

    @property
    def aggregates(self) -> Aggregates:
        """Interquartile mean, median, mean, optimality gap and performance profile of each entry."""
        return aggregates(self.table, normalise=self.normalise)

    @property
    def tasks(self) -> tuple[TaskRow, ...]:
        """The tasks, each with its family and kind."""
        return self.leaderboard.tasks

    @property
    def standings(self) -> tuple[Standing, ...]:
        """A line for each entry, the best first: place, tier, rank score, normalised score, scores by task."""
        return self.leaderboard.standings

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of it."""
        return self.leaderboard.notes


class Leaderboards(TableSet):
    """A leaderboard for each group of runs that may be compared, and what others published under other protocols."""

    def __init__(
        self,
        groups: Sequence[LeaderboardGroup],
        problems: Sequence[Problem],
        conduct: Mapping[Path, tuple[str, Conduct]] | None = None,
        figures: Sequence[OtherFigures] = (),
        ids: Mapping[str, str] | None = None,
        show: Sequence[str] = (RANKS,),
    ) -> None:
        super().__init__(problems)
        self.show = tuple(show)
        """The names of the tables that are shown."""
        self.groups = tuple(groups)
        """A leaderboard for each group of runs that may be compared; one where all may."""
        self.figures = tuple(figures)
        """What others published under protocols of their own, which is in no leaderboard."""
        self._conduct = conduct
        self._ids = ids or {}

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The tables that ``show`` names for each group, those of ranks in one; then what others published."""
        shown = [
            table
            for group in self.groups
            for name in self.show
            for table in add_title(group.title, WHOLE[name](group) if name in WHOLE else VIEWS[name](group))
        ]
        return (*shown, *map(figures_table, self.figures))

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The same as JSON has it, with all intervals and notes."""
        document = leaderboards_document(
            {group.title: group.leaderboard for group in self.groups}, [problem.document for problem in self.problems]
        )
        for group, part in zip(self.groups, document.get("tables", [document]), strict=False):
            part["aggregates"] = aggregates_document(group.aggregates)
            for entry, standing in zip(part["entries"], group.leaderboard.standings, strict=True):
                entry["findings"] = conduct_counts(standing.entry, self._conduct or {})
        if self._conduct is not None:
            document["findings_by_run"] = {str(root): _counts(conduct) for root, (_, conduct) in self._conduct.items()}
        if self.figures:
            document["published_elsewhere"] = [figures_document(figures) for figures in self.figures]
        return document

    def arranged(self, *, one_each: bool = False, per_task: bool = False) -> list[Table]:
        """Return the tables of ``show`` for a reader, those of one leaderboard after those of another.

        ``per_task`` adds a table for each task, and where runs were audited, their findings follow. What others
        published under protocols of their own comes last, in tables of its own.

        With ``one_each`` there is one table, in which a column names the leaderboard where there are several: as CSV
        has it. It holds the ranks with the findings, or what ``show`` names in long format, or with ``per_task`` the
        tasks; what others published only where there is no leaderboard. Raises ``UsageError`` if ``show`` has several
        names.
        """
        if one_each:
            if len(self.show) > 1:
                raise UsageError(f"Invalid show: expected one table for CSV, got {', '.join(self.show)}.")
            return self._in_one_table(self.show[0], per_task=per_task)
        arranged: list[Table] = []
        for group in self.groups:
            board = group.leaderboard
            tables = [table for name in self.show for table in self._view(name, group)]
            tables += self._by_task(board) if per_task else []
            tables += [] if self._conduct is None else [conduct_table(board, self._conduct)]
            arranged += add_title(group.title, tables)
        return [*arranged, *map(figures_table, self.figures)]

    def _view(self, name: str, group: LeaderboardGroup) -> Sequence[Table]:
        """Return the tables of a name; beside the ranks stands how many serious findings an audit had."""
        tables = VIEWS[name](group)
        if name != RANKS or self._conduct is None:
            return tables
        return [side_by_side(tables[0], serious_column(group.leaderboard, self._conduct), "entry"), *tables[1:]]

    def _in_one_table(self, show: str, *, per_task: bool) -> list[Table]:
        if not self.groups:
            return [join_tables([figures_in_long(figures) for figures in self.figures])]
        makers: Mapping[str, Callable[[LeaderboardGroup], Table]] = {
            RANKS: lambda group: self._with_findings(group.leaderboard),
            "scores": lambda group: scores_table(group.leaderboard),
            "harnesses": lambda group: harnesses_table(group.leaderboard),
            "aggregates": lambda group: aggregates_table(group.aggregates),
            "optimism": lambda group: optimism_table(group.leaderboard),
            "tasks": lambda group: task_scores_table(group.leaderboard),
        }
        make = makers["tasks" if show == RANKS and per_task else show]
        whole = join_tables([replace(make(group), title=group.title) for group in self.groups])
        return [with_note_of_figures(whole, self.figures)]

    @property
    def csv_tables(self) -> list[Table]:
        """As ``arranged`` has it with ``one_each``."""
        return self.arranged(one_each=True)

    def _with_findings(self, board: Leaderboard) -> Table:
        """Return the ranks, and beside each entry its findings where runs were audited."""
        table = standings_table(board)
        return table if self._conduct is None else side_by_side(table, conduct_table(board, self._conduct), "entry")

    def _by_task(self, board: Leaderboard) -> list[Table]:
        tables = task_tables(board)
        for figure in self.figures:
            of_ids = {name: task for name, id_ in self._ids.items() if (task := figure.of_id(id_))}
            tables = with_figures(tables, board, of_ids)
        return tables


VIEWS: Mapping[str, Callable[[LeaderboardGroup], Sequence[Table]]] = {
    RANKS: lambda group: standings_tables(group.leaderboard),
    "scores": lambda group: scores_tables(group.leaderboard),
    "harnesses": lambda group: harness_tables(group.leaderboard),
    "aggregates": lambda group: [aggregates_table(group.aggregates)],
    "optimism": lambda group: [optimism_table(group.leaderboard)],
}
"""The tables of a leaderboard by what they show."""
WHOLE: Mapping[str, Callable[[LeaderboardGroup], Sequence[Table]]] = {
    RANKS: lambda group: [standings_table(group.leaderboard)],
}
"""Of those that a reader sees in parts, the whole."""


def _views(show: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of tables to show, each once; raise ``UnknownName`` for another name."""
    names = [show] if isinstance(show, str) else show
    for name in names:
        if name not in VIEWS:
            raise UnknownName("table of a leaderboard", name, VIEWS)
    return tuple(dict.fromkeys(names)) or (RANKS,)


def leaderboard(  # noqa: PLR0913 - each is an argument of its own
    paths: Paths | None = None,
    tables: Sequence[str] = (),
    *,
    show: str | Sequence[str] = RANKS,
    group_by: Sequence[str] = (),
    family: str | None = None,
    allow_incomparable: bool = False,
    normalise: str = "best",
    partial: bool = False,
    audit: bool = False,
    nonce: str = "",
    runs: str | Path = DEFAULT_RUNS,
) -> Leaderboards:
    """Rank entries across tasks, with intervals.

    Args:
        paths: Runs, directories with runs below, or bundles. Default: ``runs``, unless shipped tables are
            named.
        tables: Shipped tables to rank with the runs: ``paper``, ``anchors``, ``references``, ``baselines``.
            ``published``, figures of other protocols, has a table of its own, and is never ranked.
        show: The tables to show, one or several: ``ranks``, ``scores`` (tasks by entries: means and success rates),
            ``harnesses`` (harnesses by models), ``aggregates``, or ``optimism`` (of the selection).
        group_by: What distinguishes entries besides their agent, such as ``experiment`` or ``seed``.
        family: The tasks of one family only.
        allow_incomparable: Whether to pool runs that are not comparable in one table; else each group has a table of
            its own.
        normalise: What scores are normalised by: the table's ``best`` agent, the best entry of a kind, or the best
            ``known`` score, from the better of random and idle play, without clipping.
        partial: Whether to rank entries that lack tasks with the others.
        audit: Whether to count findings in what agents did, as ``evopolicygym.audit`` finds them.
        nonce: The nonce of a board: a run without it, or with an identity that isn't its secret's, is a problem.
        runs: Where runs are looked for by id.

    Returns:
        The leaderboards, one in ``groups`` for each group of runs that may be compared. ``records`` are the rows of the
        first table, with ranks and normalised scores (1 is the best entry's, 0 random play's); ``to_markdown()``,
        ``to_latex()`` and ``to_csv()`` return text. The formulas are in ``docs/measure/leaderboard.md``.

    Raises:
        UsageError: A run is not there, or a table is not known.

    Examples:
        >>> board = evopolicygym.leaderboard("runs", tables=["paper"])
        >>> print(board.to_markdown())
    """
    views, wanted = _views(show), load_published(tables)
    results = load_results(find_paths(paths, runs, needed=not tables), needed=not tables)
    if nonce:
        results = results_of_nonce(results, nonce)
        if results.problems and not (results.runs or tables):
            first = results.problems[0]
            raise UsageError(f"No run can be ranked. {printable(str(first.root))}: {first.reason}")
    compared = {}
    if results.runs or wanted.tables or not wanted.figures:
        compared = score_tables(results.runs, wanted.tables, TableFilter(list(group_by), family, allow_incomparable))
    missing = _missing(results)
    groups = []
    for title, table in compared.items():
        board = ranked(table, normalise=normalise, partial=partial)
        groups.append(LeaderboardGroup(title, replace(board, notes=(*board.notes, *missing)), table, normalise))
    ids = {**wanted.ids, **{run.task: run.environment.id for run in results.runs}}
    figures = wanted.figures
    if family is not None:
        shown = {task.name for group in groups for task in group.tasks}
        narrowed = [figure.narrowed(id_ for name, id_ in ids.items() if name in shown) for figure in figures]
        figures = tuple(figure for figure in narrowed if figure.tasks)
    if not audit:
        return Leaderboards(groups, results.problems, figures=figures, ids=ids, show=views)
    conduct, unread = audit_runs([run.root for run in results.runs], load_detectors())
    groups = [
        replace(group, leaderboard=replace(board, notes=(*conduct_notes(board.entries, conduct), *board.notes)))
        for group in groups
        for board in (group.leaderboard,)
    ]
    return Leaderboards(groups, [*results.problems, *unread], conduct, figures, ids, views)


def _missing(results: Results) -> list[str]:
    """Return notes on runs that an experiment began and that are not among those that were found.

    They are known to the machine on which the experiment began, and to its author's bundles.
    """
    unread = {problem.root.name for problem in results.problems}
    run_ids: dict[str, set[str]] = {}
    for run in results.runs:
        run_ids.setdefault(run.experiment_id or "", set(unread)).add(run.run_id)
    names = {id_: run.experiment_name or id_[:8] for run in results.runs if (id_ := run.experiment_id)}
    here = missing_runs(run_ids)
    notes = [
        f"{count} of {began} runs that experiment {names[identity]} began on this machine are not among these."
        for identity, (count, began) in here.items()
    ]
    for bundle in results.bundles:
        for experiment in bundle.index.experiments:
            name, count = (
                printable(experiment.name),
                len(set(experiment.missing) - run_ids.get(experiment.experiment, set())),
            )
            if experiment.began is None:
                notes.append(f"How many runs experiment {name} began is not said in {bundle.file.name}.")
            elif count and experiment.experiment not in here:
                began = experiment.began
                notes.append(f"{count} of {began} runs that experiment {name} began are not in {bundle.file.name}.")
    return notes


def _counts(conduct: Conduct) -> dict[str, int]:
    return {grade.value: count for grade, count in conduct.counts.items()}


class Comparison(TableSet):
    """Two entries, task by task."""

    def __init__(self, pair: Pairing, problems: Sequence[Problem]) -> None:
        super().__init__(problems)
        self.pair = pair
        """Differences with intervals, the probability of improvement, and the mean normalised difference."""

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The tasks, and what is said over all of them."""
        return pairing_table(self.pair), overall_table(self.pair)

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The same as JSON has it."""
        return {**pairing_document(self.pair), "problems": [problem.document for problem in self.problems]}

    @property
    def csv_tables(self) -> list[Table]:
        """The tasks; what is said over all of them is in ``pair``."""
        return [self.tables[0]]


def compare(
    first: str | Path,
    second: str | Path,
    paths: Paths | None = None,
    tables: Sequence[str] = (),
    *,
    group_by: Sequence[str] = (),
    allow_incomparable: bool = False,
    audit: bool = False,
    runs: str | Path = DEFAULT_RUNS,
) -> Comparison:
    """Compare two entries task by task: differences with intervals, and the probability that the first is better.

    Args:
        first: An entry's name as ``leaderboard``, ``show`` or ``suite`` prints it, or a directory or a bundle with the
            runs of one entry.
        second: The same.
        paths: Where labels are looked for: runs, or directories with runs below. Default: ``runs``, where it
            is needed.
        tables: Shipped tables to take entries from, such as ``paper``.
        group_by: What distinguishes entries besides their agent, such as ``experiment`` or ``seed``.
        allow_incomparable: Whether to compare runs that are not comparable.
        audit: Whether to note findings in what agents did, as ``evopolicygym.audit`` finds them.
        runs: Where runs are looked for by id.

    Raises:
        UsageError: There is no such entry, both sides are the same, or their runs are not comparable.
    """
    sides, ranked = (str(first), str(second)), [shipped(name) for name in tables]
    directories = [side for side in sides if Path(side).is_dir() or is_bundle(Path(side))]
    named = {side: load_results([Path(side)]) for side in directories}
    shipped_labels = {entry.name for table in ranked for entry in table.entries}
    shipped_labels |= {run.agent for table in ranked for run in table.runs}
    needed = any(side not in shipped_labels for side in sides if side not in named)
    loaded = load_results(find_paths(paths, runs, needed=needed))
    of_sides = [{run.identity for run in results.runs} for results in named.values()]
    if sides[0] == sides[1] or (len(of_sides) > 1 and set.intersection(*of_sides)):
        raise UsageError(f"{sides[0]!r} would be compared with itself; expected two different labels or directories.")
    here = set().union(*of_sides)
    labels = _labels(named, {run.agent for run in loaded.runs if run.identity not in here} | shipped_labels)
    everything = _joined(loaded, named, labels)
    anything = score_table(everything, ranked, TableFilter(list(group_by), mix=True))
    # An unknown name is refused before anything else that may be wrong; runs of other entries don't matter.
    one, other = (labels.get(side) or entry_named(anything, side).label for side in sides)
    if one == other:
        raise UsageError(f"{sides[0]!r} and {sides[1]!r} name one entry, {one!r}; expected two.")
    compared = {run.identity for label in (one, other) for run in anything.entry(label).runs}
    both = [run for run in everything if run.identity in compared]
    table = score_table(both, ranked, TableFilter(list(group_by), mix=allow_incomparable))
    pair = pairing(table, one, other)
    problems = [problem for problem in loaded.problems if _concerns(problem, (one, other))]
    if audit:
        conduct, unread = audit_runs([run.root for run in both], load_detectors())
        notes = conduct_notes((pair.first, pair.second), conduct, with_sound=True)
        pair = replace(pair, of_table=(*notes, *pair.of_table))
        problems += unread
    return Comparison(pair, (*problems, *(problem for each in named.values() for problem in each.problems)))


def entry_named(table: ScoreTable, name: str) -> Entry:
    """Return the entry of any name that a verb prints for it; raise ``UsageError`` for an unknown or ambiguous one."""
    if matches := [entry for entry in table.entries if entry.label == name]:
        return matches[0]
    names = {entry.label: {entry.shown, *(run.planned_name for run in entry.runs)} for entry in table.entries}
    matches = [entry for entry in table.entries if name in names[entry.label]]
    if len(matches) == 1:
        return matches[0]
    if matches:
        several = ", ".join(repr(entry.label) for entry in matches)
        raise UsageError(f"Invalid entry {name!r}: expected the name of one entry, got that of {several}.")
    raise UnknownName("entry", name, names)


def _concerns(problem: Problem, labels: Sequence[str]) -> bool:
    """Return whether a run that can't be used is, or may be, one of the entries of these labels."""
    try:
        entry = read_summary(RunPaths(problem.root)).entry
    except (RecordError, OSError):
        return True
    return any(label.startswith(entry) for label in labels)


def _joined(loaded: Results, named: dict[str, Results], labels: dict[str, str]) -> tuple[RunRow, ...]:
    """Return all runs, each once; those of a named place under the label that it has here."""
    here = {run.identity: replace(run, agent=labels[side]) for side, each in named.items() for run in each.runs}
    return (*here.values(), *(run for run in loaded.runs if run.identity not in here))


def _labels(named: dict[str, Results], others: set[str]) -> dict[str, str]:
    """Return what the runs of each named place are called: their label, with the place where another bears it too."""
    labels = {side: _one_label(side, results) for side, results in named.items()}
    taken = Counter([*labels.values(), *others])
    return {side: label if taken[label] == 1 else f"{label} ({side})" for side, label in labels.items()}


def _one_label(side: str, results: Results) -> str:
    labels = sorted({run.agent for run in results.runs})
    if len(labels) != 1:
        actual = ", ".join(labels) or f"no finished run ({len(results.problems)} that can't be used)"
        raise UsageError(f"Expected the runs of one entry in {side}, found: {actual}. What works: an entry's label.")
    return labels[0]


class HeadroomTables(TableSet):
    """What tasks leave to distinguish agents by: a table for each group of runs that may be compared."""

    def __init__(
        self, found: Mapping[str, Headroom], problems: Sequence[Problem], figures: Sequence[OtherFigures] = ()
    ) -> None:
        super().__init__(problems)
        self.found = found
        """The headroom by what sets the runs apart; one with an empty title where all may be compared."""
        self.figures = tuple(figures)
        """What others published of these tasks under protocols of their own."""

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """A table for each group, then what others published."""
        return tuple(self.arranged())

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The same as JSON has it."""
        document = headrooms_document(self.found, [problem.document for problem in self.problems])
        if self.figures:
            document["published_elsewhere"] = [figures_document(figures) for figures in self.figures]
        return document

    def arranged(self, *, one_each: bool = False) -> list[Table]:
        """Return tables for a reader; with ``one_each`` a single one without what was published elsewhere, for CSV.

        Where there are several groups of runs, a column of it names them.
        """
        if one_each:
            of_groups = [replace(headroom_table(one), title=title) for title, one in self.found.items()]
            return [with_note_of_figures(join_tables(of_groups), self.figures)]
        tables: list[Table] = []
        for title, one in self.found.items():
            tables += add_title(title, [headroom_table(one)])
        return [*tables, *map(figures_table, self.figures)]

    @property
    def csv_tables(self) -> list[Table]:
        """As ``arranged`` has it with ``one_each``."""
        return self.arranged(one_each=True)


def headroom(
    paths: Paths | None = None,
    tables: Sequence[str] = (),
    *,
    family: str | None = None,
    runs: str | Path = DEFAULT_RUNS,
) -> HeadroomTables:
    """Say what tasks leave to distinguish agents by: the best known score, the spread between agents and its noise.

    Args:
        paths: Runs, directories with runs below, or bundles. Default: ``runs``, unless shipped tables are
            named.
        tables: Shipped tables to take best known scores from: ``paper``, ``anchors``, ``references``, ``baselines``;
            and ``published``, figures of other protocols.
        family: The tasks of one family only.
        runs: Where runs are looked for by id.

    Returns:
        The headroom; ``records`` has a row for each task. The formulas are in ``docs/measure/headroom.md``.

    Raises:
        UsageError: A run is not there, a table is not known, or there is nothing to show.
    """
    wanted = load_published(tables)
    results = load_results(find_paths(paths, runs, needed=not wanted.tables))
    boards = score_tables(results.runs, wanted.tables, TableFilter(family=family))
    ids = {**wanted.ids, **{run.task: run.environment.id for run in results.runs}}
    headrooms = {
        title: headroom_of(
            table, Surroundings([other for other in boards.values() if other is not table], wanted.figures, ids)
        )
        for title, table in boards.items()
    }
    shown = {task.name for table in boards.values() for task in table.tasks}
    narrowed = [figure.narrowed(id_ for name, id_ in ids.items() if name in shown) for figure in wanted.figures]
    return HeadroomTables(headrooms, results.problems, [figure for figure in narrowed if figure.tasks])


class KnobEffects(TableSet):
    """What knobs do: paired differences between levels, means of levels."""

    def __init__(self, found: Effects, problems: Sequence[Problem]) -> None:
        super().__init__(problems)
        self.effects = found
        """The knobs with their levels, means, and differences with intervals and p-values."""

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The differences."""
        return (differences_table(self.effects),)

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The same as JSON has it."""
        return effects_document(self.effects, [problem.document for problem in self.problems])

    def arranged(self, *, one_each: bool = False) -> list[Table]:
        """Return tables for a reader; with ``one_each`` all differences are one table, as CSV has it."""
        return list(self.tables) if one_each else effects_tables(self.effects)


def effects(
    paths: Paths | None = None,
    knobs: Sequence[str] = (),
    *,
    in_returns: bool = False,
    runs: str | Path = DEFAULT_RUNS,
) -> KnobEffects:
    """Say what knobs do to scores: means of levels, paired differences with 95 % intervals and Holm's p-values.

    Pairs are runs of one agent on one environment with one seed that differ in one knob alone. What the numbers mean is
    in ``docs/measure/effects.md``.

    Args:
        paths: Runs, or directories with runs below. Default: ``runs``.
        knobs: The knobs to compare, such as ``budget``. Default: all that differ, but ``harness`` and ``model``, which
            are compared where they are named.
        in_returns: Whether to compare returns, environment by environment, and not normalised scores.
        runs: Where runs are looked for by id.

    Returns:
        The effects; ``records`` are the differences, over all environments and on each.

    Raises:
        UsageError: No knob differs, no runs are pairs, or runs differ in more than the knobs.
    """
    results = load_results(find_paths(paths, runs, needed=True))
    return KnobEffects(effects_of_runs(results.runs, knobs, in_returns=in_returns), results.problems)
