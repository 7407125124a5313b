"""``[cross]`` of a suite: the knobs whose levels are crossed, and the cells that come of it.

A knob is an option in which runs may differ and still be of one experiment, on the same cases: ``core/options.py`` says
which are. ``suite.py`` plans a cell's runs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from pydantic import Field

from evopolicygym.core.errors import UsageError
from evopolicygym.core.options import AGENT_OPTIONS, COMMON_OPTIONS, Option
from evopolicygym.runs.config import TABLE_TYPES, create_table_model

CROSSABLE = tuple(knob for knob in (*COMMON_OPTIONS, *AGENT_OPTIONS) if knob.is_knob)
"""What a suite can cross, each by its name."""
Levels = Mapping[str, Any]
"""A level of each crossed knob, by the knob's name."""
CrossTable = create_table_model(
    "Cross",
    (),
    **{knob.name: (list[TABLE_TYPES.get(knob.name, knob.type)] | None, Field(default=None)) for knob in CROSSABLE},  # type: ignore[misc]
)
"""``[cross]``: for each knob that is crossed, its levels."""


def cells(cross: Mapping[str, Iterable[Any]]) -> tuple[Levels, ...]:
    """Return every combination of levels, the last knob's changing fastest; one without any where none is crossed."""
    return tuple(dict(zip(cross, levels, strict=True)) for levels in product(*cross.values()))


def levels_text(levels: Levels) -> str:
    """Return levels in words: ``budget 8, feedback returns``."""
    return ", ".join(f"{name} {level_text(level)}" for name, level in levels.items())


def level_text(level: object) -> str:
    """Return a level as it is shown: lists with commas, what is empty as none."""
    if isinstance(level, (list, tuple)):
        return ",".join(map(str, level)) or "none"
    return "none" if level in (None, "") else str(level)


def refuse_odd_levels(cross: Mapping[str, list[Any]], origin: str) -> None:
    """Raise ``UsageError`` where a knob has no level, or one of them twice."""
    for name, levels in cross.items():
        if not levels:
            raise UsageError(
                f"{origin}: cross.{name} has no levels; a list of those that are to be compared is expected. What "
                f"works too: leave {name} out of [cross], and all runs have its default."
            )
        if twice := [level for at, level in enumerate(levels) if level in levels[:at]]:
            raise UsageError(f"{origin}: cross.{name} has the level {twice[0]!r} twice; each level stands there once.")


def refuse_set_besides(cross: Iterable[str], document: Mapping[str, Any], origin: str) -> None:
    """Raise ``UsageError`` where a knob that is crossed is set for all runs, or for an agent, as well."""
    crossed = [knob for knob in CROSSABLE if knob.name in set(cross)]
    for knob, where in _set_in(crossed, document):
        raise UsageError(
            f"{origin}: {knob.name} is crossed in [cross] and set {where} as well. What works: leave it out there, or "
            f"out of [cross]; with --cross {knob.name}=… other levels are crossed."
        )


def without(document: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a suite's document without what it says of some knobs, for all runs and for its agents."""
    given = [knob for knob in CROSSABLE if knob.name in set(names)]
    found = dict(document)
    for knob in given:
        if knob not in AGENT_OPTIONS:
            found = _less(found, knob.tables, knob.key)
        elif "agents" in found:
            path = knob.in_table.tables
            found["agents"] = [_less(agent, path, knob.key) for agent in found["agents"]]
    return found


def _less(table: Mapping[str, Any], path: Sequence[str], key: str) -> dict[str, Any]:
    """Return a table without a key of the table that a path leads to."""
    if not path:
        return {name: value for name, value in table.items() if name != key}
    step, *rest = path
    inner = table.get(step)
    return {**table, step: _less(inner, rest, key)} if isinstance(inner, Mapping) else dict(table)


def _set_in(crossed: Iterable[Option], document: Mapping[str, Any]) -> Iterator[tuple[Option, str]]:
    for knob in crossed:
        path, agents = knob.tables, [document]
        if knob in AGENT_OPTIONS:
            path, agents = knob.in_table.tables, document.get("agents") or []
        for table in agents:
            if _holds(table, path, knob.key):
                name = table.get("label") or table.get("name")
                yield knob, "for all runs" if table is document else f"for the agent {name!r}"


def _holds(table: Mapping[str, Any], path: Sequence[str], key: str) -> bool:
    return _less(table, path, key) != dict(table)
