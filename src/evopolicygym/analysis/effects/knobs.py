"""The knobs of runs: which differ, at which levels, and what else a run is, which compared runs must agree in.

What differs between levels is calculated in ``effects.py``.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from evopolicygym.analysis.ranking.comparability import OF_ENTRIES, differences, property_of
from evopolicygym.analysis.results import RunResult
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.options import RUN_OPTIONS

HARNESS, MODEL = "harness", "model"
ALLOWANCE = {"max_cost": "cost", "max_tokens": "tokens", "max_time": "seconds", "max_turns": "turns"}
"""Knobs of an agent's allowance, and what an allowance calls them."""
RECORDED = {one.name: one.record_field or one.name for one in RUN_OPTIONS if one.is_knob}
"""The property of a run that holds a knob's level."""
DEFAULTS = {one.name: one.default for one in RUN_OPTIONS if one.is_knob}
KNOBS = (*RECORDED, HARNESS)
"""What effects can be asked of."""
UNASKED = {HARNESS, MODEL}
"""Those that are compared only where somebody asks for it."""
OF_TASK = {name: recorded for name, recorded in RECORDED.items() if recorded in OF_ENTRIES}


def level_of(run: RunResult, knob: str) -> Any:  # noqa: ANN401 - any knob's
    """Return the level that a run has of a knob."""
    if knob == HARNESS:
        return run.agent
    if knob in ALLOWANCE:
        return getattr(run.allowance, ALLOWANCE[knob])
    return property_of(run, RECORDED[knob])


def agent_of(run: RunResult, knobs: Iterable[str]) -> tuple[Hashable, ...]:
    """Return what agent played a run, all that it is but for the knobs that are compared."""
    own = {HARNESS: run.agent, MODEL: run.model, "effort": run.effort}
    own |= {name: level_of(run, name) for name in ALLOWANCE}
    named = run.options_text, *run.command, *run.programs, run.given_label
    return (*(own[name] for name in own if name not in set(knobs)), *named)


def knobs_that_differ(runs: Sequence[RunResult], asked: Sequence[str] = ()) -> dict[str, tuple[Any, ...]]:
    """Return the levels of each knob that is asked for, or that differs between runs of an agent on a task.

    Raises ``UsageError`` where there is no such knob, or nothing differs.
    """
    if unknown := [name for name in asked if name not in KNOBS]:
        raise UnknownName("knob", unknown[0], KNOBS)
    found = {name: _levels(runs, name) for name in asked or KNOBS if asked or _differs(runs, name)}
    several = {name: levels for name, levels in found.items() if len(levels) > 1}
    if not several or len(several) < len(asked):
        alike = ", ".join(name for name in asked if name not in several) or "every knob"
        raise UsageError(
            f"All {len(runs)} runs have the same level of {alike}; effects are of runs whose knobs differ. What works: "
            f"a suite that crosses one, such as evopolicygym suite NAME --cross budget=8,32, or several directories."
        )
    return several


def refuse_other_differences(runs: Sequence[RunResult], knobs: Iterable[str]) -> None:
    """Raise ``UsageError`` where runs on a task differ in more than the knobs."""
    by = {OF_TASK[name] for name in knobs if name in OF_TASK}
    if found := differences(runs, by):
        listed = "\n- ".join(found.values())
        named = [name for name, recorded in OF_TASK.items() if recorded in found]
        ways = ["name only the runs of one suite (one directory or several)"]
        ways += [f"compare these levels too, with --knobs {','.join([*knobs, *named])}"] if named else []
        raise UsageError(
            f"These runs differ in more than {', '.join(knobs)}:\n- {listed}\nWhat works: {', or '.join(ways)}."
        )


def _differs(runs: Sequence[RunResult], knob: str) -> bool:
    """Return whether a knob differs between runs; one of an agent only where it is the same agent but for it."""
    if knob in UNASKED:
        return False
    levels: dict[Hashable, set[str]] = defaultdict(set)
    for run in runs:
        levels[() if knob in OF_TASK else (run.task, agent_of(run, [knob]))].add(str(level_of(run, knob)))
    return any(len(each) > 1 for each in levels.values())


def _levels(runs: Sequence[RunResult], knob: str) -> tuple[Any, ...]:
    """Return the levels in order: numbers by size, else the default first; no limit is the largest."""
    found: Mapping[str, Any] = {str(level): level for level in (level_of(run, knob) for run in runs)}
    numbers = all(level is None or isinstance(level, (int, float)) for level in found.values())

    def order(level: Any) -> tuple[bool, Any]:  # noqa: ANN401 - any knob's
        if numbers:
            return (level is None, level or 0)
        return (level != DEFAULTS.get(knob), str(level))

    return tuple(sorted(found.values(), key=order))
