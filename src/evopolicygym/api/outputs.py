"""``evopolicygym.export_runs``, ``bundle``, ``write_report`` and ``export_harbor``: files of runs and environments."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evopolicygym.agents.builtin import reference
from evopolicygym.analysis.published.score_tables import load_published, shipped_names
from evopolicygym.analysis.ranking.comparability import TableFilter
from evopolicygym.analysis.results import load_results
from evopolicygym.api.argument_names import renamed
from evopolicygym.core.agent import OUTSIDE
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.options import RUN_OPTIONS
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.export.exporters import EXPORTERS, ExportResult
from evopolicygym.export.exporters import export as write_export
from evopolicygym.export.harbor import HarborTask, anchors, wheel, write_task
from evopolicygym.export.tables import find
from evopolicygym.records.reader import Places, expand_runs, find_places
from evopolicygym.report.contents import PAGE, ReportContents
from evopolicygym.report.write import select_parts
from evopolicygym.report.write import write_report as write_parts
from evopolicygym.runs.bundle import WrittenBundle, bundle_runs
from evopolicygym.runs.config import RunConfig, resolve_run_config
from evopolicygym.runs.suites.suite import load as load_suite
from evopolicygym.viewer.site.document_cache import CacheTally
from evopolicygym.viewer.site.pages import Pages, clear_pages, write_pages

COMMAND = "evopolicygym.write_report(…)"
"""What a report says that made it, where a program did."""
DEFAULT_SUITE = "core16"
TASK_OPTIONS = tuple(
    option
    for option in RUN_OPTIONS
    if option.name in {"budget", "validation", "held_out", "split", "seed", "isolation", "waive"}
)
"""Options of a run that a task fixes."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a report has written."""

    directory: Path
    contents: ReportContents
    """Its parts (tables and figures) with their files, and what they stand on: runs, entries, tasks, versions."""
    page: Path | None
    """The page to begin with; None where no pages were written."""
    pages: CacheTally | None
    """What the pages hold; None where none were written."""


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
        directory: Where the files are written.
        tables: ``"runs"``, ``"submissions"``, ``"episodes"``, ``"steps"``. Default: all; csv without steps.
        steps: Whether to write the table of steps, where it is among the tables.
        force: Whether to replace the files of an earlier export.
        runs_directory: Where runs are looked for by id.

    Returns:
        ``runs`` (how many), ``written`` (each file with ``name``, ``path``, ``rows``, ``n_bytes``) and ``notes``.

    Raises:
        UsageError: A run or a format is not there, or the directory holds something else.
        MissingExtra: The format's package is not installed.
        RecordError: A run is damaged.

    Examples:
        >>> evopolicygym.export_runs("csv", "runs", "data", tables=["runs", "episodes"]).written[0].rows
    """
    EXPORTERS.load(format_name)
    found = find(find_places(runs, runs_directory))
    return write_export(format_name, found, Path(directory), tables, steps=steps, force=force)


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
        allow_names: Whether files may hold the path of your home, your user name or your host's.
        runs_directory: Where runs are looked for by id.

    Returns:
        ``file``, and ``index``: the runs, the hashes of all files, and which runs of each experiment are missing.

    Raises:
        UsageError: A run is not there, is not finished or has secret cases, or a file holds such a name.
        RecordError: A run does not verify.

    Examples:
        >>> evopolicygym.bundle("runs/public", "mine.tar.gz").index.experiments
    """
    return bundle_runs(expand_runs(find_places(runs, runs_directory)), Path(file), allow_names=allow_names)


@renamed(beside="published", mix="allow_incomparable")
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
        force: Whether to write into a directory that holds something else.
        runs_directory: Where runs are looked for by id.

    Returns:
        The directory, the parts with their files, and the page to begin with.

    Raises:
        UsageError: A run or a part is not there, there is nothing to show, or the directory holds something else.
        MissingExtra: matplotlib is not installed, and figures are wanted.

    Examples:
        >>> evopolicygym.write_report("runs", "report", published=["paper"]).contents.parts
    """
    target, shipped = Path(directory), load_published(published)
    found = find_places(runs, runs_directory, needed=not shipped.tables)
    parts = select_parts(only, formats, figures=figures, pages=pages)
    choice = TableFilter(mix=allow_incomparable)
    contents = write_parts(target, load_results(found), shipped, parts, command=COMMAND, choice=choice, force=force)
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
    if unknown := sorted(options.keys() - {option.name for option in TASK_OPTIONS}):
        raise UnknownName("option of a Harbor task", unknown[0], [option.name for option in TASK_OPTIONS])
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
    run, _ = resolve_run_config(name, OUTSIDE, given)
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
        lay_solution=partial(reference.write_reference, spec.name),
    )
    shutil.rmtree(place, ignore_errors=True)
    part.rename(place)
    return HarborTask(task.name, place, task.files)


def _arguments(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield options as the command line takes them."""
    for option in TASK_OPTIONS:
        value = given.get(option.name, [])
        for each in value if isinstance(value, list | tuple) else [value]:
            yield from (option.flag, str(each))
