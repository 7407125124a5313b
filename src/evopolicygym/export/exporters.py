"""Exporters by their names, what they share, and the exporting of runs with one of them.

What is in the tables is described in ``rows.py``.
"""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from evopolicygym.core.errors import MissingExtra, UnknownName, UsageError
from evopolicygym.core.registry import Registry
from evopolicygym.export.schema.rows import TABLES
from evopolicygym.export.schema.tables import RunTables, each_run

EXTRA = "data"
"""The optional dependencies of ours that exporters need."""
EXPORTERS = Registry(
    kind="export format",
    package="evopolicygym.export.formats",
    group="evopolicygym.exports",
    attribute="Exporter",
)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file or data set that was written."""

    name: str
    """The table's or the data set's."""
    path: Path
    rows: int
    n_bytes: int


class BaseExporter(ABC):
    """Writes runs into a directory, one run after the other; a file is complete or not there."""

    tables: ClassVar[tuple[str, ...]]
    """What is written where nothing is asked for; empty where the format has no tables to choose."""

    def __init__(self, directory: Path, tables: Sequence[str]) -> None:
        self.directory = directory
        self.chosen = tuple(tables)
        self.notes: list[str] = []
        """What a user should know of what was written."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _traceback: TracebackType | None) -> None:
        if kind:
            self.give_up()

    @abstractmethod
    def add(self, run: RunTables) -> None:
        """Write one run."""

    @abstractmethod
    def finish(self) -> list[WrittenFile]:
        """Complete what was written, and return it."""

    @abstractmethod
    def give_up(self) -> None:
        """Remove what is not complete."""


class RowWriter(ABC):
    """Writes one table into a file beside its place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.part = path.with_name(f"{path.name}.part")
        self.rows = 0

    @abstractmethod
    def write(self, row: object) -> None:
        """Write one row."""

    @abstractmethod
    def close(self) -> None:
        """Write what is kept back and close the file; harmless when done before."""


class TablesExporter(BaseExporter):
    """Writes each table into a file of its own."""

    suffix: ClassVar[str]

    def __init__(self, directory: Path, tables: Sequence[str]) -> None:
        super().__init__(directory, tables)
        for table in TABLES:  # of an export before this one, under --force
            self._path(table).unlink(missing_ok=True)
        self._writers = {table: self.writer(table, self._path(table)) for table in self.chosen}

    @abstractmethod
    def writer(self, table: str, path: Path) -> RowWriter:
        """Return what writes a table into a file."""

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

    def give_up(self) -> None:
        """Remove the files."""
        for writer in self._writers.values():
            writer.close()
            writer.part.unlink(missing_ok=True)

    def _path(self, table: str) -> Path:
        return self.directory / f"{table}.{self.suffix}"


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export has written."""

    runs: int
    written: list[WrittenFile]
    notes: list[str]


def export(
    format_name: str,
    roots: Sequence[Path],
    directory: Path,
    tables: Sequence[str] | None = None,
    *,
    steps: bool = True,
    force: bool = False,
    follow: Callable[[Iterable[Path]], Iterable[Path]] = lambda roots: roots,
) -> ExportResult:
    """Write runs into a directory; ``follow`` is handed what is gone through, to show how far it is.

    Raises ``UsageError`` where the directory is in use and ``force`` is not given, or what is asked for can't be had.
    """
    kind: type[BaseExporter] = EXPORTERS.load(format_name)
    chosen = _chosen(format_name, kind.tables, tables, steps=steps)
    _make(directory, force=force)
    with kind(directory, chosen) as exporter:
        count = 0
        for run in each_run(follow(roots)):
            exporter.add(run)
            count += 1
        return ExportResult(count, exporter.finish(), exporter.notes)


@contextmanager
def needs(what: str) -> Iterator[None]:
    """Turn an import that fails into ``MissingExtra``."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(what, EXTRA, str(error.name or error)) from error


def replace_directory(path: Path) -> None:
    """Make an empty directory of this name, in place of one that may be there."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)


def _chosen(name: str, usual: tuple[str, ...], asked: Sequence[str] | None, *, steps: bool) -> tuple[str, ...]:
    if not usual:
        if asked or not steps:
            raise UsageError(f"The format {name} holds whole train episodes and has no tables to choose among.")
        return ()
    for table in asked or ():
        if table not in TABLES:
            raise UnknownName("table", table, TABLES)
    if asked and not steps and "steps" in asked:
        raise UsageError("--tables names steps, and --no-steps leaves them out; give one of them.")
    return tuple(table for table in TABLES if table in (asked or usual) and (steps or table != "steps"))


def _make(directory: Path, *, force: bool) -> None:
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file; expected a directory to write into.")
    if directory.is_dir() and any(directory.iterdir()) and not force:
        raise UsageError(
            f"{directory} is not empty, and nothing in it is overwritten unasked. Name another directory, or use "
            f"--force to replace the files of an export in it; other files stay."
        )
    directory.mkdir(parents=True, exist_ok=True)
