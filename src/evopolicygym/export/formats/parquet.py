"""Tables as Parquet: typed columns with their meanings in the schema, compressed. One group of rows is buffered."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evopolicygym.export.exporters import RowWriter, TablesExporter, needs
from evopolicygym.records.rows import TABLES, ColumnSchema, ValueKind, columns

with needs("The export format 'parquet'"):
    import pyarrow as pa
    from pyarrow import parquet

MOST_ROWS, MOST_BYTES = 1 << 16, 16 << 20
"""Limits of a group: rows, and bytes of its lists and texts."""


class ParquetFileWriter(RowWriter):
    """Writes a file."""

    def __init__(self, table: str, path: Path) -> None:
        super().__init__(path)
        self._columns = columns(TABLES[table])
        fields = [_field(column) for column in self._columns]
        self._schema = pa.schema(fields, metadata={"table": f"evopolicygym {table}", **_features(self._columns)})
        self._file = parquet.ParquetWriter(self.part, self._schema, compression="zstd")
        self._rows: list[object] = []
        self._bytes = 0

    def write(self, row: object) -> None:
        """Buffer a row, and write the group if it is full."""
        self._rows.append(row)
        self._bytes += _size(row, self._columns)
        if len(self._rows) >= MOST_ROWS or self._bytes >= MOST_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the last group and close the file."""
        if self._file.is_open:
            self._flush()
            self._file.close()

    def _flush(self) -> None:
        if self._rows:
            arrays = [_array(column, [column.cell(row) for row in self._rows]) for column in self._columns]
            self._rows, self._bytes = [], 0
            self._file.write_batch(pa.record_batch(arrays, schema=self._schema))


class Exporter(TablesExporter):
    """Writes Parquet."""

    suffix: ClassVar[str] = "parquet"
    tables: ClassVar[tuple[str, ...]] = tuple(TABLES)

    def writer(self, table: str, path: Path) -> RowWriter:
        """Return a writer of a table."""
        return ParquetFileWriter(table, path)


TYPES = {
    ValueKind.TEXT: pa.string(),
    ValueKind.INTEGER: pa.int64(),
    ValueKind.NUMBER: pa.float64(),
    ValueKind.BOOLEAN: pa.bool_(),
    ValueKind.TIME: pa.timestamp("ms"),  # without a time zone, for which DuckDB needs another package
    ValueKind.JSON: pa.string(),
    ValueKind.NUMBERS: pa.list_(pa.float64()),
    ValueKind.PICTURE: pa.struct([("bytes", pa.binary()), ("path", pa.string())]),  # as ``datasets`` keeps pictures
}


def _features(declared: Sequence[ColumnSchema]) -> dict[str, str]:
    """Return what ``datasets`` reads of a schema: which columns are pictures; nothing where none is."""
    pictures = {column.name: {"_type": "Image"} for column in declared if column.kind is ValueKind.PICTURE}
    return {"huggingface": json.dumps({"info": {"features": pictures}})} if pictures else {}


def _field(column: ColumnSchema) -> Any:  # noqa: ANN401 - pyarrow has no types
    metadata = {"description": column.meaning, "unit": column.unit} if column.unit else {"description": column.meaning}
    return pa.field(column.name, TYPES[column.kind], nullable=column.optional, metadata=metadata)


def _array(column: ColumnSchema, values: list[Any]) -> Any:  # noqa: ANN401 - as above
    if column.kind is ValueKind.PICTURE:
        values = [None if value is None else {"bytes": value, "path": None} for value in values]
    if column.kind is not ValueKind.NUMBERS:
        return pa.array(values, TYPES[column.kind])
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    missing = np.array([value is None for value in values])
    present = [value for value in values if value is not None]
    numbers = np.concatenate(present) if present else np.empty(0)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(numbers), mask=pa.array(missing))


def _size(row: object, columns: tuple[ColumnSchema, ...]) -> int:
    total = 0
    for column in columns:
        match column.cell(row):
            case np.ndarray() as numbers:
                total += numbers.nbytes
            case str() | bytes() as text:
                total += len(text)
    return total
