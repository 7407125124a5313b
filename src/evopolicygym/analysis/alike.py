"""Whether runs were measured alike, and so may stand in one table; in what they differ, where they weren't."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from evopolicygym.analysis.results import RunResult
from evopolicygym.core.errors import UsageError

COMPARED: Mapping[str, str] = {
    "commitment": "commitment to the cases",
    "versions": "fingerprint, in versions of packages",
    "spec_sha256": "fingerprint, in the environment's spec",
    "protocol_version": "protocol version",
    "budget": "episode budget",
    "films": "films that an agent may ask for",
    "validation_cases": "number of validation cases",
    "held_out_cases": "number of held-out cases",
}
"""What runs on a task share, or aren't compared: a property, and what it is called."""
OF_ENTRIES = frozenset({"budget", "films"})
"""Those of them that entries may be told apart by."""


def not_alike(runs: Sequence[RunResult], by: Sequence[str], *, mix: bool) -> list[str]:
    """Return what a reader has to be told of differences; raise ``UsageError`` where none are wanted.

    What entries are told apart by (``by``) is no difference.
    """
    differences: dict[str, str] = {}
    by_task = defaultdict(list)
    for run in runs:
        by_task[run.task].append(run)
    for name, what in COMPARED.items():
        if name in by:
            continue
        different = {task: found for task, group in by_task.items() if len(found := _distinct(group, name)) > 1}
        if different:
            task, found = next(iter(different.items()))
            shown = "; ".join(f"{_shown(name, value, found)} ({run.label}, {run.root})" for value, run in found[:3])
            differences[name] = f"{what}, on {', '.join(different)}. On {task}: {shown}"
    if len({run.protocol_version for run in runs}) > 1:
        differences.setdefault("protocol_version", "protocol version, between tasks")
    if differences and not mix:
        told = "\n- ".join(differences.values())
        raise UsageError(
            f"These runs were not measured alike. They differ in:\n- {told}\n{_what_works(list(differences), runs)}"
        )
    return [f"Mixed: {difference}" for difference in differences.values()]


def _what_works(differing: Sequence[str], runs: Sequence[RunResult]) -> str:
    """Return advice that fits what differs."""
    several = "commitment" in differing and len({run.experiment for run in runs}) > 1
    which = "the runs of one experiment only" if several else "only the runs to be shown (one directory or several)"
    ways = [f"Name {which}"]
    if set(differing) <= OF_ENTRIES:
        ways.append(f"tell entries apart with --by {','.join(differing)}")
    return f"{', or '.join([*ways, 'have them mixed all the same with --mix'])}."


def _distinct(runs: Sequence[RunResult], name: str) -> list[tuple[Any, RunResult]]:
    """Return each value that runs have, with one of them; a run without returns has no number of cases to differ in."""
    found: list[tuple[Any, RunResult]] = []
    for run in runs:
        value = (len(run.held_out_returns) or None) if name == "held_out_cases" else getattr(run, name)
        if value is not None and all(value != other for other, _ in found):
            found.append((value, run))
    return found


def _shown(name: str, value: Any, found: Sequence[tuple[Any, RunResult]]) -> str:  # noqa: ANN401 - any property's
    if name != "versions":
        return str(value)[:12]
    different = sorted({key for other, _ in found for key in value.keys() | other if value.get(key) != other.get(key)})
    return ", ".join(f"{key} {value.get(key, 'absent')}" for key in different)
