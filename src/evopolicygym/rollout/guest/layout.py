"""The wire format between a worker and its policy: frames on two pipes, and the layout of values in them.

All frames of one direction have the same size: a header of two little-endian 32-bit numbers (kind, step), then the
payload. Questions go to the policy (payload: an observation) and answers come back (payload: an action), one answer for
each question. After a ``FAILED`` frame follow as many bytes of JSON as its step number says, ``REPORT_LIMIT`` at most.

A layout is bound once to a buffer and then only copies bytes: no object crosses the sandbox. Observations have the
dtypes of their space. Actions are wide (float64, int64), so that the host receives what the policy returned and alone
decides what is clipped or rejected (``core/spaces.py``). A number is accepted for an array of size one, and a float
without a fraction for an integer.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from operator import index
from struct import Struct
from typing import Any

import numpy as np

HEADER = Struct("<II")
RESET, ACT = 1, 2
LOADED, READY, ACTION, FAILED, STARTED = 1, 2, 3, 4, 5
REPORT_LIMIT = 32_768
"""Most bytes of the report of a failure."""


class ChannelClosed(EOFError):
    """The other side has closed its pipe."""


def read_whole(descriptor: int, buffer: bytearray | memoryview) -> None:
    """Fill the buffer from a pipe; raise ``ChannelClosed`` if the pipe ends before."""
    whole, filled = memoryview(buffer), 0
    while filled < len(whole):
        count = os.readv(descriptor, [whole[filled:]])
        if count == 0:
            raise ChannelClosed
        filled += count


def write_whole(descriptor: int, buffer: bytes | bytearray | memoryview) -> None:
    """Write the whole buffer into a pipe."""
    whole, written = memoryview(buffer), 0
    while written < len(whole):
        written += os.write(descriptor, whole[written:])


Schema = Mapping[str, Any]
ALIGNMENT = 8
LARGEST_INTEGER = 2.0**63


class Unreadable(ValueError):
    """A value that doesn't fit the layout of its space."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A layout that is bound to a position in a buffer."""

    write: Callable[[Any], None]
    """Write a value to the buffer; raise ``Unreadable`` if it is not a value of the space."""
    read: Callable[[], Any]
    """Return a new value from the buffer."""


def size(schema: Schema, *, wide: bool) -> int:
    """Return the size of a value in bytes, a multiple of ``ALIGNMENT``."""
    match schema["type"]:
        case "Discrete":
            return ALIGNMENT
        case "Text":
            return _align(4 + 4 * schema["max_length"])
        case "Tuple":
            return sum(size(part, wide=wide) for part in schema["spaces"])
        case "Dict":
            return sum(size(part, wide=wide) for part in schema["spaces"].values())
        case _:
            return _align(prod(_shape(schema)) * _dtype(schema, wide=wide).itemsize)


def bind(schema: Schema, buffer: bytearray, offset: int = 0, *, wide: bool) -> Binding:
    """Return the layout of a space, bound to a buffer at ``offset``."""
    match schema["type"]:
        case "Discrete":
            return _bind_integer(np.frombuffer(buffer, np.int64, 1, offset), wide=wide)
        case "Text":
            return _bind_text(memoryview(buffer)[offset : offset + size(schema, wide=wide)], schema["max_length"])
        case "Tuple":
            return _bind_tuple(_bind_parts(schema["spaces"], buffer, offset, wide=wide))
        case "Dict":
            parts = _bind_parts(schema["spaces"].values(), buffer, offset, wide=wide)
            return _bind_dict(dict(zip(schema["spaces"], parts, strict=True)))
        case _:
            shape, dtype = _shape(schema), _dtype(schema, wide=wide)
            view = np.frombuffer(buffer, dtype, prod(shape), offset).reshape(shape)
            return _bind_array(view, f"fiu{dtype.kind}" if schema["type"] == "Box" else "iu", wide=wide)


def rows(schema: Schema, count: int) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None]":
    """Allocate rows for many values, not wide: an array of bytes of shape (count, bytes), and a typed view of it.

    The view has the space's dtype; values are assigned to its elements directly. It is None unless the space is an
    array or an integer.
    """
    width = size(schema, wide=False)
    allocated = np.zeros((count, width), np.uint8)  # zeros, so that padding is always the same
    if schema["type"] in {"Tuple", "Dict", "Text"}:
        return allocated, None
    shape, dtype = (() if schema["type"] == "Discrete" else _shape(schema)), _dtype(schema, wide=False)
    inner = np.empty(shape, dtype).strides
    return allocated, np.ndarray((count, *shape), dtype, allocated.data, 0, (width, *inner))


def columns(schema: Schema, rows: "np.ndarray[Any, Any]", offset: int = 0) -> Any:
    """Return the values in rows of bytes, not wide: an array for each leaf of the space, with the rows as first axis.

    ``rows`` is uint8 of shape (steps, bytes). Dict and tuple spaces become dicts and tuples, Text becomes a list.
    """
    match schema["type"]:
        case "Tuple":
            return tuple(columns(part, rows, at) for part, at in _with_offsets(schema["spaces"], offset))
        case "Dict":
            parts = zip(schema["spaces"], _with_offsets(schema["spaces"].values(), offset), strict=True)
            return {name: columns(part, rows, at) for name, (part, at) in parts}
        case "Text":
            buffer = bytearray(size(schema, wide=False))
            read, cells = bind(schema, buffer, wide=False).read, np.frombuffer(buffer, np.uint8)
            return [_text_of(cells, row[offset : offset + len(cells)], read) for row in rows]
        case kind:
            shape, dtype = (() if kind == "Discrete" else _shape(schema)), _dtype(schema, wide=False)
            width = prod(shape) * dtype.itemsize
            leaf = np.ascontiguousarray(rows[:, offset : offset + width]).view(dtype)
            return leaf.reshape(len(rows), *shape)


def _text_of(cells: "np.ndarray[Any, Any]", row: "np.ndarray[Any, Any]", read: Callable[[], Any]) -> str:
    cells[:] = row
    return str(read())


def _with_offsets(schemas: Any, offset: int, *, wide: bool = False) -> list[tuple[Schema, int]]:
    placed = []
    for schema in schemas:
        placed.append((schema, offset))
        offset += size(schema, wide=wide)
    return placed


def _shape(schema: Schema) -> tuple[int, ...]:
    return (len(schema["nvec"]),) if schema["type"] == "MultiDiscrete" else tuple(schema["shape"])


def _dtype(schema: Schema, *, wide: bool) -> "np.dtype[Any]":
    match schema["type"]:
        case "Box":
            return np.dtype(np.float64 if wide else schema["dtype"])
        case "MultiBinary":
            return np.dtype(np.int64 if wide else np.int8)
        case _:
            return np.dtype(np.int64)


def _align(count: int) -> int:
    return -(-count // ALIGNMENT) * ALIGNMENT


def _bind_parts(schemas: Any, buffer: bytearray, offset: int, *, wide: bool) -> list[Binding]:
    return [bind(schema, buffer, at, wide=wide) for schema, at in _with_offsets(schemas, offset, wide=wide)]


def _bind_integer(cell: "np.ndarray[Any, Any]", *, wide: bool) -> Binding:
    def write(value: Any) -> None:
        if isinstance(value, bool | np.bool_):
            raise Unreadable(f"expected an integer, got the truth value {value!r}")
        try:
            cell[0] = int(value) if wide and _is_whole(value) else index(value)
        except (TypeError, OverflowError) as error:
            raise Unreadable(f"expected an int, got {_brief(value)}") from error

    return Binding(write, lambda: int(cell[0]))


def _is_whole(value: Any) -> bool:
    """Return whether a value is a float without a fraction, which policies often return for integers."""
    if isinstance(value, np.ndarray) and value.shape == ():
        value = value[()]
    return isinstance(value, float | np.floating) and float(value).is_integer()


def _are_whole(array: "np.ndarray[Any, Any]") -> bool:
    """Return whether all numbers are integers within int64."""
    return bool((np.isfinite(array) & (np.abs(array) < LARGEST_INTEGER) & (array == np.floor(array))).all())


def _bind_array(view: "np.ndarray[Any, Any]", kinds: str, *, wide: bool) -> Binding:
    shape, dtype = view.shape, view.dtype
    zero_dimensional = shape == ()
    takes_a_number = wide and view.size == 1

    def write(value: Any) -> None:
        if type(value) is np.ndarray and value.dtype is dtype and value.shape == shape:
            view[...] = value
            return
        array = _as_array(value)
        if takes_a_number and array.shape == ():
            array = array.reshape(shape)
        if wide and dtype.kind == "i" and array.dtype.kind == "f" and _are_whole(array):
            array = array.astype(dtype)
        if array.shape != shape:
            raise Unreadable(f"expected an array of shape {shape}, got shape {array.shape}")
        if array.dtype.kind not in kinds:
            raise Unreadable(f"expected an array of numbers, got {array.dtype}")
        view[...] = array

    return Binding(write, (lambda: view[()]) if zero_dimensional else view.copy)


def _as_array(value: Any) -> "np.ndarray[Any, Any]":
    try:
        return np.asarray(value)
    except Exception as error:  # whatever the policy's __array__ raises
        raise Unreadable(f"{_brief(value)} can't be read as an array: {type(error).__name__}") from error


def _bind_text(cells: memoryview, max_length: int) -> Binding:
    def write(value: Any) -> None:
        if not isinstance(value, str) or len(value) > max_length:
            raise Unreadable(f"expected a text of at most {max_length} characters, got {_brief(value)}")
        encoded = value.encode("utf-8", "replace")
        cells[:4] = len(encoded).to_bytes(4, "little")
        cells[4 : 4 + len(encoded)] = encoded

    def read() -> str:
        length = min(int.from_bytes(cells[:4], "little"), len(cells) - 4)
        return bytes(cells[4 : 4 + length]).decode("utf-8", "replace")

    return Binding(write, read)


def _bind_tuple(parts: list[Binding]) -> Binding:
    def write(value: Any) -> None:
        if not isinstance(value, tuple | list) or len(value) != len(parts):
            raise Unreadable(f"expected a tuple of {len(parts)} values, got {_brief(value)}")
        for part, item in zip(parts, value, strict=True):
            part.write(item)

    return Binding(write, lambda: tuple(part.read() for part in parts))


def _bind_dict(parts: dict[str, Binding]) -> Binding:
    def write(value: Any) -> None:
        if not isinstance(value, Mapping) or set(value) != set(parts):
            raise Unreadable(f"expected a dict with the keys {sorted(parts)}, got {_brief(value)}")
        for name, part in parts.items():
            part.write(value[name])

    return Binding(write, lambda: {name: part.read() for name, part in parts.items()})


def _brief(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever the policy's __repr__ raises
        text = "a value without a repr"
    return f"{type(value).__name__} {text[:80]}"
