"""Environments written as tasks of Harbor, which other harnesses read too: what ``evopolicygym export harbor`` does.

What such a task holds is described in ``export/harbor/task_directory.py``.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from evopolicygym.agents.builtin import reference
from evopolicygym.core.agent import OUTSIDE
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.options import RUN_OPTIONS
from evopolicygym.export.harbor.judge_image import wheel
from evopolicygym.export.harbor.task_directory import HarborTask, anchors, write_task
from evopolicygym.runs.config import RunConfig, configured
from evopolicygym.runs.suites.suite import load as load_suite

DEFAULT_SUITE = "core16"
TASK_OPTIONS = tuple(
    one
    for one in RUN_OPTIONS
    if one.name in {"budget", "validation", "held_out", "split", "seed", "isolation", "waive"}
)
"""Options of a run that a task fixes."""


def export_harbor(
    directory: str | Path,
    *,
    suite: str = "",
    environments: Sequence[str] = (),
    force: bool = False,
    **options: Any,  # noqa: ANN401 - each of TASK_OPTIONS
) -> list[HarborTask]:
    """Write a task directory for each environment below ``directory``, and return what was written.

    Args:
        directory: Where; made if it is not there.
        suite: The suite whose environments are written, by default core16.
        environments: Names of environments, in place of a suite's.
        force: Whether a task that is there may be replaced; others stay.
        **options: ``budget``, ``validation``, ``held_out``, ``split``, ``seed``, ``isolation`` and ``waive`` of the run
            that each task serves, as for ``evopolicygym.run``.

    Raises:
        UsageError: An argument is invalid, an environment lacks an anchor or a reference, or a task is there already;
            nothing was written.
    """
    if suite and environments:
        raise UsageError("A suite and environments were given; give one of them.")
    if unknown := sorted(options.keys() - {one.name for one in TASK_OPTIONS}):
        raise UnknownName("option of a Harbor task", unknown[0], [one.name for one in TASK_OPTIONS])
    given = {name: value for name, value in options.items() if value is not None}
    names = environments or load_suite(suite or DEFAULT_SUITE, {}).environments
    runs = [_checked(name, given) for name in dict.fromkeys(names)]
    places = [Path(directory) / run.task.environment.name for run in runs]
    if (taken := [place for place in places if place.exists()]) and not force:
        raise UsageError(
            f"{taken[0]} is there already, and is not overwritten; name another directory, or use --force."
        )
    arguments, packed = [*_arguments(given)], wheel()
    return [_written(run, place, arguments, packed) for run, place in zip(runs, places, strict=True)]


def _checked(name: str, given: Mapping[str, Any]) -> RunConfig:
    """Return the run that a task would serve; raise ``UsageError`` where it can't be a task."""
    run, _ = configured(name, OUTSIDE, given)
    if run.split is SplitSource.DIRECTORY:
        raise UsageError(
            f"The split {given['split']!r} is a directory, which is not in the judge's image; use private or public."
        )
    anchors(run.task.environment)
    reference.ReferenceAgent().refuse(run.task.environment.name)
    return run


def _written(run: RunConfig, place: Path, arguments: Sequence[str], packed: bytes) -> HarborTask:
    """Write a task beside its place and put it there whole."""
    spec, part = run.task.environment, place.with_name(f".{place.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    task = write_task(
        spec,
        part,
        budget=run.task.budget.episodes,
        arguments=arguments,
        wheel=packed,
        lay_solution=partial(reference.lay, spec.name),
    )
    shutil.rmtree(place, ignore_errors=True)
    part.rename(place)
    return HarborTask(task.name, place, task.files)


def _arguments(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield options as the command line takes them."""
    for one in TASK_OPTIONS:
        value = given.get(one.name, [])
        for each in value if isinstance(value, list | tuple) else [value]:
            yield from (one.flag, str(each))
