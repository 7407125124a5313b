"""Environments as tasks of Harbor (``evopolicygym export harbor``)."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from evopolicygym.agents.builtin import reference
from evopolicygym.core.agent import OUTSIDE
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.options import RUN_OPTIONS
from evopolicygym.export.harbor import SCRIPT, HarborTask, anchors, check_image, images_script, wheel, write_task
from evopolicygym.runs.config import RunConfig, resolve_run_config
from evopolicygym.runs.suites.suite import load_suite

DEFAULT_SUITE = "core16"
TASK_OPTIONS = tuple(
    option
    for option in RUN_OPTIONS
    if option.name in {"budget", "validation", "held_out", "split", "seed", "isolation", "allow_missing"}
)
"""Options of a run that a Harbor task sets."""


def export_harbor(
    directory: str | Path,
    *,
    suite: str = "",
    environments: Sequence[str] = (),
    force: bool = False,
    image: str = "",
    **options: Any,  # noqa: ANN401 - each of TASK_OPTIONS
) -> list[HarborTask]:
    """Write a task directory for each environment below ``directory``, and return the tasks.

    Args:
        directory: The directory to write into; created if missing.
        suite: The suite whose environments are written, by default core16.
        environments: Names of environments instead of a suite's.
        force: Whether to replace existing tasks; other files are kept.
        image: The beginning of the names of images, such as ``ghcr.io/me/evopolicygym``: tasks name images to pull, and
            ``images.sh`` beside them builds and pushes these. Without it, images are built where a task is played.
        **options: ``budget``, ``validation``, ``held_out``, ``split``, ``seed``, ``isolation`` and ``allow_missing`` of
            the run that each task serves, as for ``evopolicygym.run``.

    Raises:
        UsageError: An argument is invalid, an environment lacks an anchor or a reference, or a task exists;
            nothing was written.
    """
    if suite and environments:
        raise UsageError("suite and environments are mutually exclusive.")
    if unknown := sorted(options.keys() - {option.name for option in TASK_OPTIONS}):
        raise UnknownName("option of a Harbor task", unknown[0], [option.name for option in TASK_OPTIONS])
    if image:
        check_image(image)
    given = {name: value for name, value in options.items() if value is not None}
    names = environments or load_suite(suite or DEFAULT_SUITE, {}).environments
    runs = [_task_run(name, given) for name in dict.fromkeys(names)]
    paths = [Path(directory) / run.task.environment.name for run in runs]
    if (taken := [path for path in paths if path.exists()]) and not force:
        raise UsageError(f"{taken[0]} exists and is not overwritten; name another directory, or use --force.")
    arguments, packed = [*_arguments(given)], wheel()
    tasks = [_write_task(run, path, arguments, packed, image) for run, path in zip(runs, paths, strict=True)]
    if image:
        script = Path(directory, SCRIPT)
        script.write_text(images_script(tasks, Path(directory)), encoding="utf-8")
        script.chmod(0o755)
    return tasks


def _task_run(name: str, given: Mapping[str, Any]) -> RunConfig:
    """Return the run of a task; raise ``UsageError`` if it is invalid."""
    run, _ = resolve_run_config(name, OUTSIDE, given)
    if run.split is SplitSource.DIRECTORY:
        raise UsageError(
            f"The split {given['split']!r} is a directory, which is not in the judge's image; use private or public."
        )
    anchors(run.task.environment)
    reference.ReferenceAgent().refuse(run.task.environment.name)
    return run


def _write_task(run: RunConfig, path: Path, arguments: Sequence[str], packed: bytes, image: str) -> HarborTask:
    """Write a task into a temporary directory and rename it into place."""
    spec, part = run.task.environment, path.with_name(f".{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    task = write_task(
        spec,
        part,
        budget=run.task.budget.episodes,
        arguments=arguments,
        wheel=packed,
        lay_solution=partial(reference.write_reference, spec.name),
        image=image,
    )
    shutil.rmtree(path, ignore_errors=True)
    part.rename(path)
    return replace(task, directory=path)


def _arguments(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield options as command-line words."""
    for option in TASK_OPTIONS:
        value = given.get(option.name, [])
        for item in value if isinstance(value, list | tuple) else [value]:
            yield from (option.flag, str(item))
