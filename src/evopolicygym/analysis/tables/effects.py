"""What stands in the tables of effects, for people and for programs.

How effects are calculated is described in ``analysis/effects/``; ``formats.py`` says how numbers become text.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from evopolicygym.analysis.effects.effects import Effects, LevelDifference
from evopolicygym.analysis.effects.estimate import MeanEstimate
from evopolicygym.analysis.tables.table import Cell, Column, Number, Table

SMALLEST_SHOWN = 0.0001


def effects_tables(found: Effects) -> list[Table]:
    """Return means of levels, differences between them, and the same for each of several environments."""
    tables = [_means_table(found), _differences_table("Paired differences", found.overall)]
    if found.by_environment:
        tables.append(_differences_table("Paired differences, by environment", found.by_environment))
    return [*tables[:-1], Table(tables[-1].title, tables[-1].columns, tables[-1].rows, found.notes)]


def differences_table(found: Effects) -> Table:
    """Return all differences in one table, as CSV has it."""
    return _differences_table("Paired differences", found.differences)


def effects_document(found: Effects, problems: Iterable[Mapping[str, str]] = ()) -> dict[str, Any]:
    """Return all effects for programs."""
    return {
        "knobs": {knob: list(levels) for knob, levels in found.knobs.items()},
        "means": [
            {
                "knob": one.knob, "level": one.level, "environments": one.environments, "runs": one.runs,
                "normalised": one.mean.value, "interval": _ends(one.mean), "interval_from": one.mean.spread.value,
            }
            for one in found.means
        ],
        "differences": [
            {
                "knob": one.knob, "level": one.level, "over": one.over, "environment": one.environment or None,
                "environments": one.environments, "pairs": one.pairs,
                "difference": one.difference.value, "interval": _ends(one.difference),
                "interval_from": one.difference.spread.value, "p": one.difference.p, "p_holm": one.p_adjusted,
                "difference_of_returns": one.returns,
            }
            for one in found.differences
        ],
        "scales": {name: {"random": one.low, "best": one.best} for name, one in found.scales.items()},
        "notes": list(found.notes),
        "problems": list(problems),
    }  # fmt: skip


def level_text(level: object) -> str:
    """Return a level as tables show it; what is empty or without limit as none."""
    return "none" if level in (None, "") else str(level)


def _means_table(found: Effects) -> Table:
    columns = (
        Column("knob", "knob", is_text=True), Column("level", "level", is_text=True),
        Column("environments", "environments"), Column("runs", "runs"),
        Column("normalised", "normalised score [95 %]"),
    )  # fmt: skip
    rows = tuple(
        (one.knob, level_text(one.level), one.environments, one.runs, _number(one.mean)) for one in found.means
    )
    return Table("Means of levels", columns, rows)


def _differences_table(title: str, found: Iterable[LevelDifference]) -> Table:
    columns = (
        Column("knob", "knob", is_text=True), Column("level", "level", is_text=True),
        Column("over", "over", is_text=True), Column("environment", "environment", is_text=True),
        Column("pairs", "pairs"), Column("difference", "difference [95 %]"),
        Column("interval_from", "from", is_text=True), Column("p", "p"), Column("p_holm", "p (Holm)"),
        Column("returns", "in returns"),
    )  # fmt: skip
    rows = tuple(
        (
            one.knob, level_text(one.level), level_text(one.over),
            one.environment or (f"all {one.environments}" if one.environments > 1 else None),
            one.pairs, _number(one.difference), one.difference.spread.value, _p(one.difference.p), _p(one.p_adjusted),
            None if one.returns is None else Number(one.returns, None),
        )
        for one in found
    )  # fmt: skip
    kept = [at for at in range(len(columns)) if any(row[at] is not None for row in rows)]
    return Table(title, tuple(columns[at] for at in kept), tuple(tuple(row[at] for at in kept) for row in rows))


def _number(estimate: MeanEstimate) -> Cell:
    return Number(estimate.value, interval=estimate.interval)


def _p(value: float | None) -> Cell:
    return None if value is None else Number(max(value, SMALLEST_SHOWN), 4)


def _ends(estimate: MeanEstimate) -> list[float] | None:
    return None if estimate.interval is None else [estimate.interval.low, estimate.interval.high]
