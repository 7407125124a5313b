"""Tables as JSON lines: an object for each row, with the names of its columns.

Types are those of Parquet: what is JSON there is a text of JSON here too, so that all rows of a file have the same.
Times are texts, and a picture is Base64 of a PNG. NaN and infinities, which JSON doesn't have, are null.
"""

import math
from base64 import b64encode
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evopolicygym.core.strict_json import dumps
from evopolicygym.core.text import iso_time
from evopolicygym.export.exporters import RowWriter, TablesExporter, WrittenFile
from evopolicygym.export.hub import CARD, MARK, tables_card
from evopolicygym.records.rows import TABLES, columns


class JsonLinesWriter(RowWriter):
    """Writes a file."""

    def __init__(self, table: str, path: Path) -> None:
        super().__init__(path)
        self._columns = columns(TABLES[table])
        self._file = self.part.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")

    def write(self, row: object) -> None:
        """Write one row."""
        self._file.write(dumps({column.name: _value(column.cell(row)) for column in self._columns}) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Exporter(TablesExporter):
    """Writes JSON lines."""

    suffix: ClassVar[str] = "jsonl"
    tables: ClassVar[tuple[str, ...]] = tuple(TABLES)

    def finish(self) -> list[WrittenFile]:
        """Complete all files, and write a card by which ``datasets.load_dataset`` knows the types of columns."""
        written = super().finish()
        card = self.directory / CARD
        if not card.exists() or MARK in card.read_text(encoding="utf-8", errors="replace"):
            card.write_text(tables_card(written, self.directory.name), encoding="utf-8")
        return written

    def writer(self, table: str, path: Path) -> RowWriter:
        """Return a writer of a table."""
        return JsonLinesWriter(table, path)


def _value(value: Any) -> Any:  # noqa: ANN401 - a cell of any column
    match value:
        case datetime():
            return iso_time(value)
        case bytes():
            return b64encode(value).decode("ascii")
        case float():
            return value if math.isfinite(value) else None
        case np.ndarray():
            return value.tolist() if np.isfinite(value).all() else [_value(number) for number in value.tolist()]
        case _:
            return value
