"""``[cross]`` of a suite: options whose levels are crossed, and the resulting cells.

A knob is an option in which runs of one experiment may differ while they play the same cases; ``core/options.py``
declares which options are knobs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from pydantic import Field

from evopolicygym.core.errors import UsageError
from evopolicygym.core.options import AGENT_OPTIONS, COMMON_OPTIONS, Option
from evopolicygym.runs.config import TABLE_TYPES, create_table_model

CROSSABLE = tuple(knob for knob in (*COMMON_OPTIONS, *AGENT_OPTIONS) if knob.is_knob)
"""The options that a suite can cross."""
Levels = Mapping[str, Any]
"""A level of each crossed knob, by the knob's name."""
CrossTable = create_table_model(
    "Cross",
    (),
    **{knob.name: (list[TABLE_TYPES.get(knob.name, knob.type)] | None, Field(default=None)) for knob in CROSSABLE},  # type: ignore[misc]
)
"""``[cross]``: the levels of each crossed knob."""


def expand_cells(cross: Mapping[str, Iterable[Any]]) -> tuple[Levels, ...]:
    """Return all combinations of levels, the last knob changing fastest; one empty cell if nothing is crossed."""
    return tuple(dict(zip(cross, levels, strict=True)) for levels in product(*cross.values()))


def format_levels(levels: Levels) -> str:
    """Format levels, such as ``budget 8, feedback returns``."""
    return ", ".join(f"{name} {format_level(level)}" for name, level in levels.items())


def format_level(level: object) -> str:
    """Format a level: lists with commas, empty values as none."""
    if isinstance(level, (list, tuple)):
        return ",".join(map(str, level)) or "none"
    return "none" if level in (None, "") else str(level)


def check_levels(cross: Mapping[str, list[Any]], origin: str) -> None:
    """Raise ``UsageError`` if a knob has no levels or a duplicate level."""
    for name, levels in cross.items():
        if not levels:
            raise UsageError(
                f"{origin}: Invalid cross.{name}: expected a list of levels, got none. Without cross.{name}, all runs "
                f"have the default."
            )
        if duplicates := [level for index, level in enumerate(levels) if level in levels[:index]]:
            raise UsageError(f"{origin}: Invalid cross.{name}: the level {duplicates[0]!r} appears twice.")


def check_single_setting(cross: Iterable[str], document: Mapping[str, Any], origin: str) -> None:
    """Raise ``UsageError`` if a crossed knob is also set for all runs or for an agent."""
    crossed = [knob for knob in CROSSABLE if knob.name in set(cross)]
    for knob, where in _find_settings(crossed, document):
        raise UsageError(
            f"{origin}: {knob.name} is crossed in [cross] and also set {where}. Remove one of them; --cross "
            f"{knob.name}=… crosses other levels."
        )


def drop_options(document: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a suite's document without some options, of all runs and of its agents."""
    dropped = [knob for knob in CROSSABLE if knob.name in set(names)]
    result = dict(document)
    for knob in dropped:
        if knob not in AGENT_OPTIONS:
            result = _drop_key(result, knob.tables, knob.key)
        elif "agents" in result:
            path = knob.in_table.tables
            result["agents"] = [_drop_key(agent, path, knob.key) for agent in result["agents"]]
    return result


def _drop_key(table: Mapping[str, Any], path: Sequence[str], key: str) -> dict[str, Any]:
    """Return a table without a key of its nested table at ``path``."""
    if not path:
        return {name: value for name, value in table.items() if name != key}
    step, *rest = path
    inner = table.get(step)
    return {**table, step: _drop_key(inner, rest, key)} if isinstance(inner, Mapping) else dict(table)


def _find_settings(crossed: Iterable[Option], document: Mapping[str, Any]) -> Iterator[tuple[Option, str]]:
    for knob in crossed:
        path, agents = knob.tables, [document]
        if knob in AGENT_OPTIONS:
            path, agents = knob.in_table.tables, document.get("agents") or []
        for table in agents:
            if _has_key(table, path, knob.key):
                name = table.get("label") or table.get("name")
                yield knob, "for all runs" if table is document else f"for the agent {name!r}"


def _has_key(table: Mapping[str, Any], path: Sequence[str], key: str) -> bool:
    return _drop_key(table, path, key) != dict(table)
