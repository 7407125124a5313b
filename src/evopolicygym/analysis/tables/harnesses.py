"""Harnesses by models: what each harness makes of each model, in a grid."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from evopolicygym.analysis.published.score_tables import ANCHOR
from evopolicygym.analysis.ranking.leaderboard import Leaderboard, Score, Standing
from evopolicygym.analysis.tables.table import Cell, Column, Number, Table

NO_MODEL = "no model"
SEVERAL = "A cell of several entries (labels, programs, knobs) has the mean of theirs, without an interval."
MEANS_ALONE = "Entries that were published as means have no harness of their own in a record: they are left out."
Grid = Mapping[tuple[str, str], Sequence[Standing]]
"""The standings by harness and model."""


def harness_tables(board: Leaderboard) -> list[Table]:
    """Return normalised scores and rank scores of harnesses (rows) by models with their efforts (columns)."""
    grid = _grid(board)
    tables = [
        _table("Normalised score, harness by model", grid, lambda one: one.normalised),
        _table("Rank score, harness by model", grid, lambda one: one.rank_score),
    ]
    notes = [*board.notes]
    notes += [SEVERAL] if any(len(cell) > 1 for cell in grid.values()) else []
    bare = [one for one in board.standings if one.entry.kind != ANCHOR and not one.entry.runs]
    notes += [MEANS_ALONE] if bare else []
    return [*tables[:-1], replace(tables[-1], notes=tuple(notes))]


def harnesses_table(board: Leaderboard) -> Table:
    """Return the same in long format, a row for each harness and model, as CSV has it."""
    columns = (
        Column("harness", "harness", is_text=True), Column("model", "model", is_text=True),
        Column("entries", "entries"), Column("normalised", "normalised"), Column("rank_score", "rank score"),
    )  # fmt: skip
    rows = tuple(
        (
            harness, model, len(cell), _cell(cell, lambda one: one.normalised),
            _cell(cell, lambda one: one.rank_score),
        )
        for (harness, model), cell in sorted(_grid(board).items())
    )  # fmt: skip
    return Table("Harness by model", columns, rows, harness_tables(board)[-1].notes)


def _grid(board: Leaderboard) -> Grid:
    found: dict[tuple[str, str], list[Standing]] = defaultdict(list)
    for one in board.standings:
        if one.entry.harness:
            effort = f"@{one.entry.effort}" if one.entry.effort else ""
            found[one.entry.harness, (one.entry.model or NO_MODEL) + effort].append(one)
    return found


def _table(title: str, grid: Grid, score: Callable[[Standing], Score | None]) -> Table:
    harnesses, models = sorted({harness for harness, _ in grid}), sorted({model for _, model in grid})
    columns = (Column("harness", "harness", is_text=True), *(Column(model, model) for model in models))
    rows = tuple((name, *(_cell(grid.get((name, model), ()), score) for model in models)) for name in harnesses)
    return Table(title, columns, rows)


def _cell(standings: Sequence[Standing], score: Callable[[Standing], Score | None]) -> Cell:
    """Return what the entries of a cell have; nothing where no such entry was played."""
    found = [known for one in standings if one.has_score and (known := score(one)) is not None]
    if not found:
        return None
    return Number(fmean(one.value for one in found), interval=found[0].interval if len(found) == 1 else None)
