"""What a task was set to, in the options that runs must agree in before they are pooled: plain values, for tables.

Which options these are is declared in ``run_options.py``.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import reduce
from typing import Any

from evopolicygym.core.option import DeclaredOption
from evopolicygym.core.task import Limits, Task

Setting = bool | int | float | str
NO_LIMIT, DEFAULT = "no limit", "default"


def setting(task: Task, one: DeclaredOption) -> Setting:
    """Return what a task was set to in an option that runs must agree in."""
    if not one.option.held_as:
        return plain(task.choices.get(one.name, one.option.default))
    return plain(reduce(getattr, one.option.held_as.split("."), task))


def changed_settings(task: Task, options: Iterable[DeclaredOption]) -> dict[str, Setting]:
    """Return what a task was set to in each of these options, by name, where it isn't the default."""
    found = {one.name: (setting(task, one), plain(one.option.default)) for one in options}
    return {name: value for name, (value, default) in found.items() if value != default}


def plain(value: Any) -> Setting:  # noqa: ANN401 - any option's
    """Return an option's value as tables show it."""
    match value:
        case None:
            return NO_LIMIT
        case Enum():
            return str(value.value)
        case Limits():
            return " ".join(f"{name}={_short(of)}" for name, of in sorted(value.changed.items())) or DEFAULT
        case Mapping() if not value:
            return DEFAULT
        case list() | tuple():
            return " ".join(map(str, value))
        case bool() | int() | float() | str():
            return value
    return str(value)


def _short(limit: float) -> str:
    return f"{limit:g}" if isinstance(limit, float) else str(limit)
