"""What stands in the table of headroom, for people and for programs.

How it is calculated is described in ``analysis/headroom/``; ``formats.py`` says how numbers become text.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from evopolicygym.analysis.headroom.best_known import KnownScore
from evopolicygym.analysis.headroom.headroom import Headroom, TaskHeadroom
from evopolicygym.analysis.headroom.spread import EntrySpread
from evopolicygym.analysis.tables.table import Cell, Column, Number, Table

COLUMNS = (
    Column("task", "task", is_text=True),
    Column("random", "random"),
    Column("best", "best known ± s.e."),
    Column("holder", "held by", is_text=True),
    Column("kind", "kind", is_text=True),
    Column("agent", "best agent", is_text=True),
    Column("agent_score", "its score"),
    Column("left", "left"),
    Column("entries", "agents"),
    Column("runs", "runs"),
    Column("between", "spread"),
    Column("noise", "noise"),
    Column("ratio", "ratio"),
    Column("p_holm", "p (Holm)"),
    Column("at_best", "at best"),
    Column("verdict", "verdict", is_text=True),
)
SMALLEST_SHOWN = 0.0001


def headroom_table(found: Headroom) -> Table:
    """Return a row for each task, without columns that nobody has anything in."""
    rows = [_row(one) for one in found.tasks]
    kept = [at for at in range(len(COLUMNS)) if any(row[at] is not None for row in rows)]
    shown = tuple(tuple(row[at] for at in kept) for row in rows)
    return Table("Headroom", tuple(COLUMNS[at] for at in kept), shown, found.notes)


def headroom_document(found: Headroom) -> dict[str, Any]:
    """Return the headroom for programs; spreads are in returns by task, and in shares of scales over tasks."""
    return {
        "tasks": [
            {
                "task": one.task.name,
                "family": one.task.family,
                "random": one.random,
                "best": _known(one.best),
                "scale": one.scale,
                "best_agent": _known(one.agent),
                "left": one.left,
                "agents": list(one.entries),
                "runs": one.runs,
                "at_best": one.at_best,
                "spread": _spread(one.spread),
                "p_holm": one.p,
                "verdict": one.verdict.value,
            }
            for one in found.tasks
        ],
        "suite": {
            "verdict": found.verdict.value,
            "agents": list(found.entries),
            "tasks": found.over,
            "spread": _spread(found.spread),
            "p_holm": found.p,
        },
        "notes": list(found.notes),
    }


def headrooms_document(found: Mapping[str, Headroom], problems: Iterable[Mapping[str, str]] = ()) -> dict[str, Any]:
    """Return headrooms for programs: one alone as it is; several, by what sets their runs apart, under ``tables``."""
    documents = [{"title": title, **headroom_document(one)} for title, one in found.items()]
    if len(documents) == 1:
        del documents[0]["title"]
        return {**documents[0], "problems": list(problems)}
    return {"tables": documents, "problems": list(problems)}


def _row(one: TaskHeadroom) -> tuple[Cell, ...]:
    spread, best, agent = one.spread, one.best, one.agent
    return (
        one.task.name,
        None if one.random is None else Number(one.random, None),
        Number(best.score, None, best.standard_error) if best else None,
        best.holder if best else None,
        best.kind if best else None,
        agent.holder if agent else None,
        Number(agent.score, None) if agent else None,
        _percent(one.left),
        len(one.entries) or None,
        one.runs or None,
        _share(spread.between, one.scale) if spread else None,
        _share(spread.noise, one.scale) if spread else None,
        Number(spread.ratio, 1) if spread and spread.ratio is not None else None,
        None if one.p is None else Number(max(one.p, SMALLEST_SHOWN), 4),
        _percent(one.at_best),
        one.verdict.value,
    )


def _share(value: float, scale: float | None) -> Cell:
    return None if scale is None else _percent(value / scale)


def _percent(share: float | None) -> Cell:
    return None if share is None else Number(share, percent=True)


def _known(one: KnownScore | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {"score": one.score, "standard_error": one.standard_error, "holder": one.holder, "kind": one.kind}


def _spread(one: EntrySpread | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {"between": one.between, "noise": one.noise, "ratio": one.ratio, "p": one.p, "noise_covers": one.covers}
