"""``evopolicygym.export_runs``, ``bundle``, ``write_report`` and ``export_harbor``: files of runs and environments."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from evopolicygym.agents.builtin import reference
from evopolicygym.analysis.published.score_tables import load_published, shipped_names
from evopolicygym.analysis.ranking.comparability import TableFilter
from evopolicygym.analysis.results import load_results
from evopolicygym.api import accept_old_names
from evopolicygym.core.agent import OUTSIDE
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.options import RUN_OPTIONS
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.export.exporters import EXPORTERS, ExportResult
from evopolicygym.export.exporters import export as write_export
from evopolicygym.export.harbor import HarborTask, anchors, wheel, write_task
from evopolicygym.records.checked import open_usable_runs
from evopolicygym.records.reader import Places, find_places
from evopolicygym.report.contents import PAGE, ReportContents
from evopolicygym.report.write import select_parts
from evopolicygym.report.write import write_report as write_parts
from evopolicygym.runs.bundle import WrittenBundle, bundle_runs
from evopolicygym.runs.config import RunConfig, resolve_run_config
from evopolicygym.runs.suites.suite import load_suite
from evopolicygym.viewer.site.document_cache import CacheTally
from evopolicygym.viewer.site.pages import Pages, clear_pages, write_pages

COMMAND = "evopolicygym.write_report(…)"
"""The command that a report names if a program made it."""
DEFAULT_SUITE = "core16"
TASK_OPTIONS = tuple(
    option
    for option in RUN_OPTIONS
    if option.name in {"budget", "validation", "held_out", "split", "seed", "isolation", "waive"}
)
"""Options of a run that a Harbor task sets."""


@dataclass(frozen=True, slots=True)
class Report:
    """A written report."""

    directory: Path
    contents: ReportContents
    """Its parts (tables and figures) with their files, and their basis: runs, entries, tasks, versions."""
    page: Path | None
    """The first page; None without pages."""
    pages: CacheTally | None
    """Counts of the pages' contents; None without pages."""


def export_runs(
    format_name: str,
    runs: Places,
    directory: str | Path,
    *,
    tables: Sequence[str] | None = None,
    steps: bool = True,
    force: bool = False,
    runs_directory: str | Path = DEFAULT_RUNS,
) -> ExportResult:
    """Write runs as tables, data sets or trajectories.

    Args:
        format_name: ``"parquet"``, ``"csv"``, ``"minari"``, ``"atif"``, or an installed format.
        runs: Runs, or directories with runs below.
        directory: The directory to write into.
        tables: ``"runs"``, ``"submissions"``, ``"episodes"``, ``"steps"``. Default: all; csv without steps.
        steps: Whether to write the table of steps.
        force: Whether to replace the files of an earlier export.
        runs_directory: The directory in which ids are looked up.

    Returns:
        ``runs`` (how many), ``written`` (each file with ``name``, ``path``, ``rows``, ``n_bytes``), ``notes``, and
        ``problems``: the runs that are left out, and why.

    Raises:
        UsageError: A run or a format is unknown, or the directory has other files.
        MissingExtra: The format's package is not installed.
        RecordError: No run can be used.

    Examples:
        >>> evopolicygym.export_runs("csv", "runs", "data", tables=["runs", "episodes"]).written[0].rows
    """
    EXPORTERS.load(format_name)
    opened = open_usable_runs(find_places(runs, runs_directory))
    written = write_export(format_name, opened.runs, Path(directory), tables, steps=steps, force=force)
    return replace(written, problems=opened.problems)


def bundle(
    runs: Places,
    file: str | Path,
    *,
    allow_names: bool = False,
    runs_directory: str | Path = DEFAULT_RUNS,
) -> WrittenBundle:
    """Write finished runs into one archive that anyone can verify, replay included, and rank.

    Args:
        runs: Runs, or directories with runs below: of a public split, or of experiments that were revealed.
        file: The archive, whose name ends in ``.tar.gz``.
        allow_names: Whether files may contain your home directory's path, user name or host name.
        runs_directory: The directory in which ids are looked up.

    Returns:
        ``file``, ``index``: the runs, the hashes of all files, and which runs of each experiment are missing, and
        ``problems``: runs that are left out, since they are unfinished or do not verify.

    Raises:
        UsageError: A run is unknown or has secret cases, none is finished, or a file contains such a name.
        RecordError: No run verifies.

    Examples:
        >>> evopolicygym.bundle("runs/public", "mine.tar.gz").index.experiments
    """
    opened = open_usable_runs(find_places(runs, runs_directory))
    return bundle_runs(opened, Path(file), allow_names=allow_names)


@accept_old_names(beside="published", mix="allow_incomparable")
def write_report(  # noqa: PLR0913 - each is an argument of its own
    runs: Places | None = None,
    directory: str | Path = "report",
    *,
    published: Sequence[str] = (),
    only: Sequence[str] = (),
    formats: Sequence[str] = ("svg", "png"),
    figures: bool = True,
    pages: bool = True,
    allow_incomparable: bool = False,
    force: bool = False,
    runs_directory: str | Path = DEFAULT_RUNS,
) -> Report:
    """Write all tables, figures and pages of runs into a directory with an index.

    Args:
        runs: Runs, or directories with runs below. Default: ``runs_directory``, unless shipped tables are named.
        directory: Where the files are written; new, empty, or an earlier report.
        published: Shipped tables to show with the runs, such as ``paper``.
        only: Names of tables and figures, such as ``edits``; then no pages are written. Default: all.
        formats: Formats of figures: ``"svg"``, ``"png"``, ``"pdf"``.
        figures: Whether to draw figures, for which matplotlib is needed.
        pages: Whether to write the viewer's pages.
        allow_incomparable: Whether to pool runs that are not comparable in one table.
        force: Whether to write into a directory with other files.
        runs_directory: The directory in which ids are looked up.

    Returns:
        The directory, the parts with their files, and the first page.

    Raises:
        UsageError: A run or a part is unknown, there is nothing to show, or the directory has other files.
        MissingExtra: Figures are requested and matplotlib is not installed.

    Examples:
        >>> evopolicygym.write_report("runs", "report", published=["paper"]).contents.parts
    """
    target, shipped = Path(directory), load_published(published)
    found = find_places(runs, runs_directory, needed=not shipped.tables)
    parts = select_parts(only, formats, figures=figures, pages=pages)
    choice = TableFilter(mix=allow_incomparable)
    contents = write_parts(
        target,
        load_results(found, needed=not shipped.tables),
        shipped,
        parts,
        command=COMMAND,
        choice=choice,
        force=force,
    )
    clear_pages(target)
    if not parts.has_pages:
        return Report(target, contents, None, None)
    ranked = [name for name in published if name in shipped_names()]
    tally = write_pages(target, Pages(found, ranked, report=asdict(contents)["parts"]))
    return Report(target, contents, target / PAGE, tally)


def export_harbor(
    directory: str | Path,
    *,
    suite: str = "",
    environments: Sequence[str] = (),
    force: bool = False,
    **options: Any,  # noqa: ANN401 - each of TASK_OPTIONS
) -> list[HarborTask]:
    """Write a task directory for each environment below ``directory``, and return the tasks.

    Args:
        directory: The directory to write into; created if missing.
        suite: The suite whose environments are written, by default core16.
        environments: Names of environments instead of a suite's.
        force: Whether to replace existing tasks; other files are kept.
        **options: ``budget``, ``validation``, ``held_out``, ``split``, ``seed``, ``isolation`` and ``waive`` of the run
            that each task serves, as for ``evopolicygym.run``.

    Raises:
        UsageError: An argument is invalid, an environment lacks an anchor or a reference, or a task exists;
            nothing was written.
    """
    if suite and environments:
        raise UsageError("suite and environments are mutually exclusive.")
    if unknown := sorted(options.keys() - {option.name for option in TASK_OPTIONS}):
        raise UnknownName("option of a Harbor task", unknown[0], [option.name for option in TASK_OPTIONS])
    given = {name: value for name, value in options.items() if value is not None}
    names = environments or load_suite(suite or DEFAULT_SUITE, {}).environments
    runs = [_task_run(name, given) for name in dict.fromkeys(names)]
    paths = [Path(directory) / run.task.environment.name for run in runs]
    if (taken := [path for path in paths if path.exists()]) and not force:
        raise UsageError(f"{taken[0]} exists and is not overwritten; name another directory, or use --force.")
    arguments, packed = [*_arguments(given)], wheel()
    return [_write_task(run, path, arguments, packed) for run, path in zip(runs, paths, strict=True)]


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


def _write_task(run: RunConfig, path: Path, arguments: Sequence[str], packed: bytes) -> HarborTask:
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
    )
    shutil.rmtree(path, ignore_errors=True)
    part.rename(path)
    return HarborTask(task.name, path, task.files)


def _arguments(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield options as command-line words."""
    for option in TASK_OPTIONS:
        value = given.get(option.name, [])
        for item in value if isinstance(value, list | tuple) else [value]:
            yield from (option.flag, str(item))
