"""Exporters: their registry, base classes, and the export of runs with one of them."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from evopolicygym.analysis.run_tables import RunTables, each_run
from evopolicygym.core.errors import MissingExtra, UnknownName, UsageError
from evopolicygym.core.registry import Registry
from evopolicygym.records.checked import CheckedRun
from evopolicygym.records.reader import Problem
from evopolicygym.records.rows import TABLES

EXTRA = "data"
"""The package's extra that exporters need."""
EXPORTERS = Registry(
    kind="export format",
    package="evopolicygym.export.formats",
    group="evopolicygym.exports",
    attribute="Exporter",
)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file or data set that was written."""

    name: str
    """Name of the table or data set."""
    path: Path
    rows: int
    n_bytes: int


class BaseExporter(ABC):
    """Writes runs into a directory, run by run; a file is either complete or absent."""

    tables: ClassVar[tuple[str, ...]]
    """Default tables; empty for a format without a choice of tables."""

    def __init__(self, directory: Path, tables: Sequence[str]) -> None:
        self.directory = directory
        self.chosen = tuple(tables)
        self.notes: list[str] = []
        """Notes to the user."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _traceback: TracebackType | None) -> None:
        if kind:
            self.abort()

    @abstractmethod
    def add(self, run: RunTables) -> None:
        """Write one run."""

    @abstractmethod
    def finish(self) -> list[WrittenFile]:
        """Complete all files and return them."""

    @abstractmethod
    def abort(self) -> None:
        """Remove incomplete files."""


class RowWriter(ABC):
    """Writes one table into a temporary file beside its path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.part = path.with_name(f"{path.name}.part")
        self.rows = 0

    @abstractmethod
    def write(self, row: object) -> None:
        """Write one row."""

    @abstractmethod
    def close(self) -> None:
        """Write buffered rows and close the file; may be called twice."""


class TablesExporter(BaseExporter):
    """Writes a file for each table."""

    suffix: ClassVar[str]

    def __init__(self, directory: Path, tables: Sequence[str]) -> None:
        super().__init__(directory, tables)
        for table in TABLES:  # of an earlier export, under --force
            self._path(table).unlink(missing_ok=True)
        self._writers = {table: self.writer(table, self._path(table)) for table in self.chosen}

    @abstractmethod
    def writer(self, table: str, path: Path) -> RowWriter:
        """Return a writer of a table."""

    def add(self, run: RunTables) -> None:
        """Write one run's rows."""
        for table, writer in self._writers.items():
            for row in run.rows(table):
                writer.write(row)
                writer.rows += 1

    def finish(self) -> list[WrittenFile]:
        """Complete all files."""
        for writer in self._writers.values():
            writer.close()
            writer.part.rename(writer.path)
        return [
            WrittenFile(table, writer.path, writer.rows, writer.path.stat().st_size)
            for table, writer in self._writers.items()
        ]

    def abort(self) -> None:
        """Remove the files."""
        for writer in self._writers.values():
            writer.close()
            writer.part.unlink(missing_ok=True)

    def _path(self, table: str) -> Path:
        return self.directory / f"{table}.{self.suffix}"


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of an export."""

    runs: int
    written: list[WrittenFile]
    notes: list[str]
    problems: tuple[Problem, ...] = ()
    """Runs that are left out, and why."""


def export(
    format_name: str,
    runs: Sequence[CheckedRun],
    directory: Path,
    tables: Sequence[str] | None = None,
    *,
    steps: bool = True,
    force: bool = False,
    follow: Callable[[Iterable[CheckedRun]], Iterable[CheckedRun]] = lambda runs: runs,
) -> ExportResult:
    """Write runs into a directory; ``follow`` wraps the iterable of runs, such as to show progress.

    Raises ``UsageError`` for a directory that isn't empty (without ``force``) or an invalid choice of tables.
    """
    kind: type[BaseExporter] = EXPORTERS.load(format_name)
    chosen = _choose_tables(format_name, kind.tables, tables, steps=steps)
    _prepare_directory(directory, force=force)
    with kind(directory, chosen) as exporter:
        count = 0
        for run in each_run(follow(runs)):
            exporter.add(run)
            count += 1
        return ExportResult(count, exporter.finish(), exporter.notes)


@contextmanager
def needs(what: str) -> Iterator[None]:
    """Turn an ``ImportError`` into ``MissingExtra``."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(what, EXTRA, str(error.name or error)) from error


def replace_directory(path: Path) -> None:
    """Create an empty directory, in place of an existing one."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)


def _choose_tables(
    name: str, default: tuple[str, ...], requested: Sequence[str] | None, *, steps: bool
) -> tuple[str, ...]:
    if not default:
        if requested or not steps:
            raise UsageError(f"The format {name} has no tables to choose from: it writes whole runs.")
        return ()
    for table in requested or ():
        if table not in TABLES:
            raise UnknownName("table", table, TABLES)
    if requested and not steps and "steps" in requested:
        raise UsageError("--tables steps conflicts with --no-steps.")
    return tuple(table for table in TABLES if table in (requested or default) and (steps or table != "steps"))


def _prepare_directory(directory: Path, *, force: bool) -> None:
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"Invalid output {directory}: expected a directory, got a file.")
    if directory.is_dir() and any(directory.iterdir()) and not force:
        raise UsageError(
            f"{directory} is not empty. Name another directory, or pass --force to replace the files of an export in "
            f"it; other files stay."
        )
    directory.mkdir(parents=True, exist_ok=True)
