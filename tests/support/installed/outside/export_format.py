"""An export format: each table as JSON, a line a row."""

import json
from pathlib import Path
from typing import ClassVar

from evopolicygym.export.exporters import RowWriter, TablesExporter
from evopolicygym.records.rows import TABLES, columns


class Writer(RowWriter):
    """One file."""

    def __init__(self, table: str, path: Path) -> None:
        super().__init__(path)
        self._names = [one.name for one in columns(TABLES[table])]
        self._file = self.part.open("w", encoding="utf-8")

    def write(self, row: object) -> None:
        """Write one row."""
        self._file.write(json.dumps({name: getattr(row, name) for name in self._names}, default=str) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Exporter(TablesExporter):
    """Writes a file a table."""

    suffix: ClassVar[str] = "jsonl"
    tables: ClassVar[tuple[str, ...]] = ("runs", "episodes")

    def writer(self, table: str, path: Path) -> RowWriter:
        """Return what writes a table into a file."""
        return Writer(table, path)
