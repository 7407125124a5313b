"""``evopolicygym.export_runs``, ``bundle`` and ``write_report``: files of runs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from evopolicygym.analysis.published.score_tables import load_published, shipped_names
from evopolicygym.analysis.ranking.comparability import TableFilter
from evopolicygym.analysis.results import load_results
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.export.bundle import WrittenBundle, bundle_runs
from evopolicygym.export.exporters import EXPORTERS, ExportResult
from evopolicygym.export.exporters import export as write_export
from evopolicygym.records.checked import open_usable_runs
from evopolicygym.records.reader import Paths, find_paths
from evopolicygym.report.contents import PAGE, ReportContents
from evopolicygym.report.write import select_parts
from evopolicygym.report.write import write_report as write_parts
from evopolicygym.viewer.site.document_cache import CacheTally
from evopolicygym.viewer.site.pages import Pages, clear_pages, write_pages

COMMAND = "evopolicygym.write_report(…)"
"""The command that a report names if a program made it."""


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
    paths: Paths,
    output: str | Path,
    *,
    tables: Sequence[str] | None = None,
    steps: bool = True,
    force: bool = False,
    runs: str | Path = DEFAULT_RUNS,
) -> ExportResult:
    """Write runs as tables, data sets or trajectories.

    Args:
        format_name: ``"parquet"``, ``"csv"``, ``"jsonl"``, ``"minari"``, ``"atif"``, or an installed format.
        paths: Runs, or directories with runs below.
        output: The directory to write into.
        tables: ``"runs"``, ``"tasks"``, ``"submissions"``, ``"edits"``, ``"episodes"``, ``"steps"``. Default: all; csv
            without steps.
        steps: Whether to write the table of steps.
        force: Whether to replace the files of an earlier export.
        runs: The directory in which ids are looked up.

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
    opened = open_usable_runs(find_paths(paths, runs))
    written = write_export(format_name, opened.runs, Path(output), tables, steps=steps, force=force)
    return replace(written, problems=opened.problems)


def bundle(
    paths: Paths,
    output: str | Path,
    *,
    steps: bool = True,
    allow_names: bool = False,
    runs: str | Path = DEFAULT_RUNS,
) -> WrittenBundle:
    """Write finished runs into one archive that anyone can verify, replay included, and rank.

    Args:
        paths: Runs, or directories with runs below: of a public split, or of experiments that were revealed.
        output: The archive, whose name ends in ``.tar.gz``.
        steps: Whether it has feedback and the files of hidden episodes. Without them it is many times smaller, and
            only a replay can check its scores.
        allow_names: Whether files may contain your home directory's path, user name or host name.
        runs: The directory in which ids are looked up.

    Returns:
        ``file``, ``index``: the runs, the hashes of all files, and which runs of each experiment are missing, and
        ``problems``: runs that are left out, since they are unfinished or do not verify.

    Raises:
        UsageError: A run is unknown or has secret cases, none is finished, or a file contains such a name.
        RecordError: No run verifies.

    Examples:
        >>> evopolicygym.bundle("runs/public", "mine.tar.gz").index.experiments
    """
    opened = open_usable_runs(find_paths(paths, runs))
    return bundle_runs(opened, Path(output), steps=steps, allow_names=allow_names)


def write_report(  # noqa: PLR0913 - each is an argument of its own
    paths: Paths | None = None,
    output: str | Path = "report",
    *,
    tables: Sequence[str] = (),
    only: Sequence[str] = (),
    formats: Sequence[str] = ("svg", "png"),
    figures: bool = True,
    pages: bool = True,
    allow_incomparable: bool = False,
    force: bool = False,
    runs: str | Path = DEFAULT_RUNS,
) -> Report:
    """Write all tables, figures and pages of runs into a directory with an index.

    Args:
        paths: Runs, or directories with runs below. Default: ``runs``, unless shipped tables are named.
        output: The directory for the files; new, empty, or an earlier report.
        tables: Shipped tables to show with the runs, such as ``paper``.
        only: Names of tables and figures, such as ``edits``; then no pages are written. Default: all.
        formats: Formats of figures: ``"svg"``, ``"png"``, ``"pdf"``.
        figures: Whether to draw figures, for which matplotlib is needed.
        pages: Whether to write the viewer's pages.
        allow_incomparable: Whether to pool runs that are not comparable in one table.
        force: Whether to write into a directory with other files.
        runs: The directory in which ids are looked up.

    Returns:
        The directory, the parts with their files, and the first page.

    Raises:
        UsageError: A run or a part is unknown, there is nothing to show, or the directory has other files.
        MissingExtra: Figures are requested and matplotlib is not installed.

    Examples:
        >>> evopolicygym.write_report("runs", "report", tables=["paper"]).contents.parts
    """
    target, shipped = Path(output), load_published(tables)
    sources = find_paths(paths, runs, needed=not shipped.tables)
    parts = select_parts(only, formats, figures=figures, pages=pages)
    choice = TableFilter(mix=allow_incomparable)
    contents = write_parts(
        target,
        load_results(sources, needed=not shipped.tables),
        shipped,
        parts,
        command=COMMAND,
        choice=choice,
        force=force,
    )
    clear_pages(target)
    if not parts.has_pages:
        return Report(target, contents, None, None)
    ranked = [name for name in tables if name in shipped_names()]
    tally = write_pages(target, Pages(sources, ranked, report=asdict(contents)["parts"]))
    return Report(target, contents, target / PAGE, tally)
