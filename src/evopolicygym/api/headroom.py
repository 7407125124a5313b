"""``evopolicygym.headroom``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evopolicygym.analysis.headroom.headroom import Headroom, Surroundings
from evopolicygym.analysis.headroom.headroom import headroom as headroom_of
from evopolicygym.analysis.published.beside import beside as shipped_beside
from evopolicygym.analysis.published.other_protocol import OtherFigures
from evopolicygym.analysis.ranking.score_table import Choice, score_tables
from evopolicygym.analysis.results import Problem, load_results
from evopolicygym.analysis.tables.contents import titled
from evopolicygym.analysis.tables.formats import joined
from evopolicygym.analysis.tables.headroom import headroom_table, headrooms_document
from evopolicygym.analysis.tables.published import figures_document, figures_table, with_note_of_figures
from evopolicygym.analysis.tables.table import Table
from evopolicygym.api.table_set import TableSet
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.records.run_names import Places, named_places


class HeadroomTables(TableSet):
    """What tasks leave to distinguish agents by: a table for each group of runs that may be compared."""

    def __init__(
        self, found: Mapping[str, Headroom], problems: Sequence[Problem], figures: Sequence[OtherFigures] = ()
    ) -> None:
        self.found = found
        """The headroom by what sets the runs apart; one with an empty title where all may be compared."""
        self.figures = tuple(figures)
        """What others published of these tasks under protocols of their own."""
        document = headrooms_document(found, [one.document for one in problems])
        if figures:
            document = {**document, "published_elsewhere": [figures_document(one) for one in figures]}
        super().__init__(tuple(self.arranged()), document, tuple(problems))

    def arranged(self, *, one_each: bool = False) -> list[Table]:
        """Return tables for a reader; with ``one_each`` a single one without what was published elsewhere, for CSV.

        Where there are several groups of runs, a column of it names them.
        """
        if one_each:
            of_groups = [replace(headroom_table(one), title=title) for title, one in self.found.items()]
            return [with_note_of_figures(joined(of_groups), self.figures)]
        tables: list[Table] = []
        for title, one in self.found.items():
            tables += titled(title, [headroom_table(one)])
        return [*tables, *map(figures_table, self.figures)]

    @property
    def csv_tables(self) -> list[Table]:
        """As ``arranged`` has it with ``one_each``."""
        return self.arranged(one_each=True)


def headroom(
    runs: Places | None = None,
    beside: Sequence[str] = (),
    *,
    family: str | None = None,
    runs_directory: str | Path = DEFAULT_RUNS,
) -> HeadroomTables:
    """Say what tasks leave to distinguish agents by: the best known score, the spread between agents and its noise.

    Args:
        runs: Runs, or directories with runs below. Default: ``runs_directory``, unless shipped tables are named.
        beside: Shipped tables to take best known scores from: ``paper``, ``anchors``, ``references``, ``baselines``;
            and ``published``, figures of other protocols.
        family: The tasks of one family only.
        runs_directory: Where runs are looked for by id.

    Returns:
        The headroom; ``records`` has a row for each task. The formulas are in ``docs/measure/headroom.md``.

    Raises:
        UsageError: A run is not there, a table is not known, or there is nothing to show.
    """
    wanted = shipped_beside(beside)
    results = load_results(named_places(runs, runs_directory, needed=not wanted.tables))
    tables = score_tables(results.runs, wanted.tables, Choice(family=family))
    ids = {**wanted.ids, **{run.task: run.game.id for run in results.runs}}
    found = {
        title: headroom_of(
            table, Surroundings([one for one in tables.values() if one is not table], wanted.figures, ids)
        )
        for title, table in tables.items()
    }
    shown = {task.name for table in tables.values() for task in table.tasks}
    narrowed = [one.narrowed(id_ for name, id_ in ids.items() if name in shown) for one in wanted.figures]
    return HeadroomTables(found, results.problems, [one for one in narrowed if one.tasks])
