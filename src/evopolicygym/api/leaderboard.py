"""``evopolicygym.leaderboard``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evopolicygym.analysis.conduct.audit_run import Conduct, named_detectors
from evopolicygym.analysis.conduct.audited_runs import audited_runs, conduct_table
from evopolicygym.analysis.published.beside import beside as shipped_beside
from evopolicygym.analysis.published.other_protocol import OtherFigures
from evopolicygym.analysis.ranking.leaderboard import Leaderboard
from evopolicygym.analysis.ranking.leaderboard import leaderboard as ranked
from evopolicygym.analysis.ranking.score_table import Choice, score_tables
from evopolicygym.analysis.results import Problem, Results, load_results
from evopolicygym.analysis.tables.contents import (
    leaderboards_document,
    scores_table,
    scores_tables,
    standings_table,
    standings_tables,
    task_scores_table,
    task_tables,
    titled,
)
from evopolicygym.analysis.tables.formats import joined
from evopolicygym.analysis.tables.harnesses import harness_tables, harnesses_table
from evopolicygym.analysis.tables.published import (
    figures_document,
    figures_in_long,
    figures_table,
    with_figures,
    with_note_of_figures,
)
from evopolicygym.analysis.tables.table import Table, side_by_side
from evopolicygym.api.table_set import TableSet
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.records.run_names import Places, named_places
from evopolicygym.runs.experiment import missing_runs


class Leaderboards(TableSet):
    """One leaderboard for each group of runs that may be compared."""

    def __init__(
        self,
        boards: Mapping[str, Leaderboard],
        problems: Sequence[Problem],
        conduct: Mapping[Path, tuple[str, Conduct]] | None = None,
        figures: Sequence[OtherFigures] = (),
        ids: Mapping[str, str] | None = None,
    ) -> None:
        self.boards = boards
        """The leaderboards by what sets their runs apart; one with an empty title where all may be compared."""
        self.figures = tuple(figures)
        """What others published under protocols of their own, which is in no leaderboard."""
        self._conduct = conduct
        self._ids = ids or {}
        tables = [table for title, board in boards.items() for table in titled(title, [standings_table(board)])]
        document = leaderboards_document(boards, [one.document for one in problems])
        if conduct is not None:
            counts = {str(root): _counts(one) for root, (_, one) in conduct.items()}
            document = {**document, "findings_by_run": counts}
        if figures:
            document = {**document, "published_elsewhere": [figures_document(one) for one in figures]}
        super().__init__((*tables, *map(figures_table, figures)), document, tuple(problems))

    def arranged(
        self, *, one_each: bool = False, scores: bool = False, per_task: bool = False, harnesses: bool = False
    ) -> list[Table]:
        """Return tables for a reader, those of one leaderboard after those of another.

        ``scores`` shows tasks by entries (means and success) in place of the ranks, ``harnesses`` harnesses by models;
        ``per_task`` adds a table for each task, and where runs were audited, their findings follow. What others
        published under protocols of their own comes last, in tables of its own.

        With ``one_each`` there is one table, in which a column names the leaderboard where there are several: as CSV
        has it. It holds the ranks with the findings, or in long format scores, harnesses, or with ``per_task`` the
        tasks; what others published only where there is no leaderboard.
        """
        if one_each:
            return self._as_one(scores=scores, per_task=per_task, harnesses=harnesses)
        arranged: list[Table] = []
        for title, board in self.boards.items():
            whole = standings_tables(board)
            first = harness_tables(board) if harnesses else scores_tables(board) if scores else whole
            tables = [*first, *(self._by_task(board) if per_task else [])]
            tables += [] if self._conduct is None else [conduct_table(board, self._conduct)]
            arranged += titled(title, tables)
        return [*arranged, *map(figures_table, self.figures)]

    def _as_one(self, *, scores: bool, per_task: bool, harnesses: bool) -> list[Table]:
        if not self.boards:
            return [joined([figures_in_long(one) for one in self.figures])]
        of = (
            harnesses_table if harnesses else scores_table if scores else task_scores_table if per_task
            else self._with_findings
        )  # fmt: skip
        whole = joined([replace(of(board), title=title) for title, board in self.boards.items()])
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
        for one in self.figures:
            of_games = {name: task for name, id_ in self._ids.items() if (task := one.of_game(id_))}
            tables = with_figures(tables, board, of_games)
        return tables


def leaderboard(  # noqa: PLR0913 - each is an argument of its own
    runs: Places | None = None,
    beside: Sequence[str] = (),
    *,
    by: Sequence[str] = (),
    family: str | None = None,
    mix: bool = False,
    normalise: str = "best",
    partial: bool = False,
    audit: bool = False,
    runs_directory: str | Path = DEFAULT_RUNS,
) -> Leaderboards:
    """Rank entries across tasks, with intervals.

    Args:
        runs: Runs, or directories with runs below. Default: ``runs_directory``, unless shipped tables are named.
        beside: Shipped tables to stand beside: ``paper``, ``anchors``, ``references``, ``baselines``. ``published``,
            figures of other protocols, has a table of its own, and is never ranked.
        by: What distinguishes entries besides their agent, such as ``experiment`` or ``seed``.
        family: The tasks of one family only.
        mix: Whether to pool runs that are not comparable in one table; else each group has a table of its own.
        normalise: What scores are normalised by: the table's ``best`` agent, or the best entry of a kind.
        partial: Whether to rank entries that lack tasks with the others.
        audit: Whether to count findings in what agents did, as ``evopolicygym.audit`` finds them.
        runs_directory: Where runs are looked for by id.

    Returns:
        The leaderboards; ``records`` of the first hold ranks and normalised scores (1 is the best entry's, 0 random
        play's). The formulas are in ``docs/measure/leaderboard.md``.

    Raises:
        UsageError: A run is not there, or a table is not known.
    """
    wanted = shipped_beside(beside)
    results = load_results(named_places(runs, runs_directory, needed=not beside))
    compared = {}
    if results.runs or wanted.tables or not wanted.figures:
        compared = score_tables(results.runs, wanted.tables, Choice(list(by), family, mix))
    boards = {title: ranked(table, normalise=normalise, partial=partial) for title, table in compared.items()}
    missing = _missing(results)
    boards = {title: replace(board, notes=(*board.notes, *missing)) for title, board in boards.items()}
    ids = {**wanted.ids, **{run.task: run.game.id for run in results.runs}}
    figures = wanted.figures
    if family is not None:
        shown = {task.name for board in boards.values() for task in board.tasks}
        narrowed = [one.narrowed(id_ for name, id_ in ids.items() if name in shown) for one in figures]
        figures = tuple(one for one in narrowed if one.tasks)
    if not audit:
        return Leaderboards(boards, results.problems, figures=figures, ids=ids)
    conduct, unread = audited_runs([run.root for run in results.runs], named_detectors())
    return Leaderboards(boards, [*results.problems, *unread], conduct, figures, ids)


def _missing(results: Results) -> list[str]:
    """Return notes on runs that an experiment began on this machine and that are not among those that were found."""
    unread = {problem.root.name for problem in results.problems}
    found: dict[str, set[str]] = {}
    for run in results.runs:
        found.setdefault(run.experiment, set(unread)).add(run.run_id)
    names = {run.experiment: run.experiment_name or run.experiment[:8] for run in results.runs}
    return [
        f"{count} of {began} runs that experiment {names[identity]} began on this machine are not among these."
        for identity, (count, began) in missing_runs(found).items()
    ]


def _counts(conduct: Conduct) -> dict[str, int]:
    return {grade.value: count for grade, count in conduct.counts.items()}
