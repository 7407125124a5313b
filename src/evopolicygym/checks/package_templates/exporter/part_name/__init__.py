"""An export format: a file of tab-separated values for each table, a line for each row."""

import csv
from pathlib import Path
from typing import ClassVar

from evopolicygym.export.exporters import RowWriter, TablesExporter
from evopolicygym.records.rows import TABLES, columns


class TsvWriter(RowWriter):
    """Writes one table into ``self.part``, which is renamed to ``self.path`` once it is complete."""

    def __init__(self, table: str, path: Path) -> None:
        super().__init__(path)
        self._columns = columns(TABLES[table])
        self._file = self.part.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, csv.excel_tab)
        self._writer.writerow([column.name for column in self._columns])

    def write(self, row: object) -> None:
        """Write one row; a cell is None, a truth value, a number, a text, a time, bytes or an array."""
        self._writer.writerow([column.cell(row) for column in self._columns])

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._file.close()


class Exporter(TablesExporter):
    """Writes the tables that are asked for, by default those named here."""

    suffix: ClassVar[str] = "tsv"
    tables: ClassVar[tuple[str, ...]] = ("runs", "submissions", "episodes")

    def writer(self, table: str, path: Path) -> RowWriter:
        """Return a writer of a table."""
        return TsvWriter(table, path)
