"""Tables as CSV (RFC 4180, UTF-8): a line of column names, then a line for each row.

Null is an empty field; numbers round-trip exactly; a list of numbers is JSON, and a picture Base64 of a PNG. A text
that begins as a formula does gets an apostrophe (``csv_text``).
"""

from base64 import b64encode
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evopolicygym.core.strict_json import dumps
from evopolicygym.core.text import csv_line, csv_text, iso_time
from evopolicygym.export.exporters import RowWriter, TablesExporter
from evopolicygym.records.rows import STEPS, TABLES, columns


class CsvFileWriter(RowWriter):
    """Writes a file."""

    def __init__(self, table: str, path: Path) -> None:
        super().__init__(path)
        self._columns = columns(TABLES[table])
        self._file = self.part.open("w", encoding="utf-8", newline="")
        self._file.write(csv_line(column.name for column in self._columns))

    def write(self, row: object) -> None:
        """Write one row."""
        self._file.write(csv_line(_field(column.cell(row)) for column in self._columns))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Exporter(TablesExporter):
    """Writes CSV; steps are not a default table."""

    suffix: ClassVar[str] = "csv"
    tables: ClassVar[tuple[str, ...]] = tuple(table for table in TABLES if table != STEPS)

    def writer(self, table: str, path: Path) -> RowWriter:
        """Return a writer of a table."""
        return CsvFileWriter(table, path)


def _field(value: Any) -> str:  # noqa: ANN401 - a cell of any column
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case datetime():
            return iso_time(value)
        case np.ndarray():
            return dumps(value)
        case bytes():
            return b64encode(value).decode("ascii")
        case str():
            return csv_text(value)
        case _:
            return str(value)
