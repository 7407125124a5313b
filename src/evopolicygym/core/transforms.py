"""Changes of values that interfaces consist of, and changes back, bit for bit.

A transform is a JSON document beside the schema of a space (``core.spaces.to_schema``); ``core/interface.py`` draws it.
This module imports nothing of the package: a copy of it plays a standard policy through an interface
(``agents/builtin/reference.py``).
"""

import hmac
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

Schema = Mapping[str, Any]
Transform = Mapping[str, Any]
Convert = Callable[[Any], Any]

SAME, MIRRORED = "same", "mirrored"
"""An axis that stays as it is, and one in reverse; else an axis has a list, the standard index of each new one."""
_WORD = re.compile("[A-Za-z]+")
_ROUNDS, _LETTERS, _BYTES = 4, 26, 256


def bind(transform: Transform, schema: Schema, *, inverse: bool = False, lenient: bool = False) -> Convert:
    """Return the function that changes values of a space, or changes them back.

    ``lenient`` is for what a policy returns: numbers may be of another dtype, and what isn't of the space becomes
    something that the reader of actions refuses too.
    """
    match schema["type"]:
        case _ if not transform:
            return _unchanged
        case "Discrete":
            return _bind_codes(transform["codes"], schema, inverse=inverse, lenient=lenient)
        case "Text":
            key = bytes.fromhex(transform["words"])
            return lambda value: _with_other_words(value, key, inverse)
        case "Tuple":
            return _bind_tuple(transform, schema, inverse=inverse, lenient=lenient)
        case "Dict":
            return _bind_dict(transform, schema, inverse=inverse, lenient=lenient)
    change = _array_change(transform, schema, inverse=inverse, wide=lenient)
    return _leniently(change, schema) if lenient else change


def _unchanged(value: Any) -> Any:
    return value


def _bind_codes(codes: list[int], schema: Schema, *, inverse: bool, lenient: bool) -> Convert:
    table = invert_order(codes).tolist() if inverse else codes
    start = int(schema.get("start", 0))
    if not lenient:
        return (lambda value: table[value]) if start == 0 else (lambda value: table[value - start] + start)

    def convert(value: Any) -> Any:
        try:
            index = int(value) - start
            is_one = np.ndim(value) == 0 and not isinstance(value, bool | np.bool_) and index + start == value
        except (TypeError, ValueError, OverflowError):
            return value
        return table[index] + start if is_one and 0 <= index < len(table) else value

    return convert


def _bind_tuple(transform: Transform, schema: Schema, *, inverse: bool, lenient: bool) -> Convert:
    pairs = zip(transform["parts"], schema["spaces"], strict=True)
    parts = [bind(part, space, inverse=inverse, lenient=lenient) for part, space in pairs]
    order = transform["order"]
    indices = invert_order(order).tolist() if inverse else order

    def convert(value: Any) -> Any:
        if lenient and not (isinstance(value, tuple | list) and len(value) == len(parts)):
            return value
        if inverse:
            return tuple(part(value[index]) for part, index in zip(parts, indices, strict=True))
        return tuple(parts[index](value[index]) for index in indices)

    return convert


def _bind_dict(transform: Transform, schema: Schema, *, inverse: bool, lenient: bool) -> Convert:
    parts = [
        (name, shown, bind(transform["parts"][name], schema["spaces"][name], inverse=inverse, lenient=lenient))
        for name, shown in transform["names"].items()
    ]
    pairs = [(shown, name, part) if inverse else (name, shown, part) for name, shown, part in parts]

    def convert(value: Any) -> Any:
        if lenient and not (isinstance(value, Mapping) and set(value) == {name for name, _, _ in pairs}):
            return value
        return {target: part(value[source]) for source, target, part in pairs}

    return convert


def _leniently(change: Convert, schema: Schema) -> Convert:
    """Return a change of arrays that leaves alone what isn't an array of finite numbers of the space's shape."""
    shape = (len(schema["nvec"]),) if schema["type"] == "MultiDiscrete" else tuple(schema["shape"])
    is_whole = schema["type"] != "Box" or np.dtype(schema["dtype"]).kind in "iu"

    def convert(value: Any) -> Any:
        try:
            array = np.asarray(value)
        except Exception:  # noqa: BLE001 - whatever a policy's value raises
            return value
        if array.dtype.kind not in "fiu":
            return value
        if array.shape != shape:
            if array.size != 1 or prod(shape) != 1:
                return value
            array = array.reshape(shape)
        if is_whole or array.dtype.kind != "f":
            array = array.astype(np.float64)
        if is_whole and not (np.isfinite(array).all() and (array == np.floor(array)).all()):
            return value
        try:
            return change(array)
        except IndexError:
            return None

    return convert


def _array_change(transform: Transform, schema: Schema, *, inverse: bool, wide: bool) -> Convert:
    """Return the change of arrays of a space; ``wide`` where integers come as floating-point numbers."""
    match schema["type"]:
        case "MultiDiscrete":
            return _bind_indices(transform, schema, inverse=inverse)
        case "MultiBinary":
            shape, dtype = tuple(schema["shape"]), np.dtype(np.float64 if wide else np.int8)
            order = np.asarray(transform["order"], np.intp)
            factors = 1 - 2 * np.asarray(transform["turned"], np.int64)
            offsets = np.asarray(transform["turned"], np.int64)
        case _:
            shape, dtype = tuple(schema["shape"]), np.dtype(schema["dtype"])
            if wide and dtype.kind in "iu":
                dtype = np.dtype(np.float64)
            order = flat_order(transform, shape)
            if "codes" in transform:
                return _bind_grid(transform, shape, order, inverse=inverse)
            factors = np.asarray(transform.get("factors", [1]))
            offsets = np.asarray(transform.get("offsets", [0]))
    among = (prod(shape),) if schema["type"] == "MultiBinary" else shape
    spread = spread_out(factors, among, dtype), spread_out(offsets, among, dtype)
    return _bind_array(shape, dtype, order, spread, inverse=inverse, wide=wide)


def _bind_array(shape: tuple[int, ...], dtype: Any, order: Any, spread: Any, *, inverse: bool, wide: bool) -> Convert:
    factors, offsets = spread
    is_flat, is_moved = len(shape) == 1, bool(offsets.any())
    back = invert_order(order)
    shrinking = (1.0 / factors).astype(dtype) if dtype.kind == "f" else factors  # of integers ±1, its own inverse
    shrinking_back = shrinking[back]

    def flat(value: Any) -> Any:
        """Return the elements, flat and of the space's own dtype."""
        if type(value) is not np.ndarray or (value.dtype is not dtype and not wide):
            value = np.asarray(value, None if wide else dtype)
        if value.shape != shape:
            raise ValueError(f"expected an array of shape {shape}, got shape {value.shape}")
        return value.ravel()

    def forward(value: Any) -> Any:
        changed = flat(value).take(order) * factors
        return (changed + offsets if is_moved else changed).reshape(shape)[()]

    def backward(value: Any) -> Any:
        changed = (flat(value) - offsets if is_moved else flat(value)) * shrinking
        return changed.take(back).reshape(shape)[()]

    def forward_flat(value: Any) -> Any:
        if type(value) is np.ndarray and value.dtype is dtype and value.shape == shape:
            return value[order] * factors  # quicker than take, of few elements
        return forward(value)

    def backward_flat(value: Any) -> Any:
        if type(value) is np.ndarray and value.dtype is dtype and value.shape == shape:
            return value[back] * shrinking_back
        return backward(value)

    if is_flat and not is_moved and not wide:
        return backward_flat if inverse else forward_flat
    return backward if inverse else forward


def _bind_grid(transform: Transform, shape: tuple[int, ...], order: Any, *, inverse: bool) -> Convert:
    """Return the change of a symbolic grid: a table of all bytes for each channel, side by side in one array."""
    tables = np.tile(np.arange(_BYTES, dtype=np.uint8), (len(transform["codes"]), 1))
    for table, codes in zip(tables, transform["codes"], strict=True):
        first = transform["first_code"]
        table[first : first + len(codes)] = codes
    if inverse:
        tables = np.argsort(tables, axis=1).astype(np.uint8)
    flat_tables, back = tables.ravel(), invert_order(order)
    starts = spread_out(_BYTES * np.arange(len(tables)), shape, np.intp)

    def convert(value: Any) -> Any:
        codes = np.asarray(value)
        if codes.shape != shape:
            raise ValueError(f"expected an array of shape {shape}, got shape {codes.shape}")
        codes = codes.ravel()
        if codes.dtype != np.uint8:
            if ((codes < 0) | (codes >= _BYTES)).any():
                raise IndexError("a code outside a byte")
            codes = codes.astype(np.uint8)
        changed = flat_tables[starts + codes].take(back) if inverse else flat_tables[starts + codes.take(order)]
        return changed.reshape(shape)

    return convert


def _bind_indices(transform: Transform, schema: Schema, *, inverse: bool) -> Convert:
    order = np.asarray(transform["order"], np.intp)
    codes = [invert_order(table).tolist() if inverse else table for table in transform["codes"]]
    start = [int(first) for first in schema.get("start") or [0] * len(codes)]

    def coded(numbers: list[int]) -> list[int]:
        """Return standard entries with the other numbers; raise ``IndexError`` where one is out of range."""
        indices = [int(number) - first for number, first in zip(numbers, start, strict=True)]
        if any(not 0 <= index < len(table) for index, table in zip(indices, codes, strict=True)):
            raise IndexError("an entry is out of range")
        return [table[index] + first for index, table, first in zip(indices, codes, start, strict=True)]

    back = invert_order(order)

    def convert(value: Any) -> Any:
        numbers = np.asarray(value)
        if numbers.shape != order.shape:
            raise ValueError(f"expected {len(order)} entries, got shape {numbers.shape}")
        if inverse:
            return np.asarray(coded(numbers.take(back).tolist()), np.int64)
        return np.asarray(coded(numbers.tolist()), np.int64).take(order)

    return convert


@lru_cache(1024)
def _with_other_words(text: str, key: bytes, inverse: bool) -> str:  # noqa: FBT001 - cached
    """Return a text whose words are replaced by others of the same length, one for one; the rest stays."""
    return _WORD.sub(lambda match: _other_word(match[0], key, inverse=inverse), text)


def _other_word(word: str, key: bytes, *, inverse: bool) -> str:
    """Return the word that an unbalanced Feistel cipher over letters makes of one; capitals stay where they are."""
    letters = [ord(letter) - ord("a") for letter in word.lower()]
    middle, sign = len(letters) // 2, -1 if inverse else 1
    rounds = range(_ROUNDS)
    for number in reversed(rounds) if inverse else rounds:
        indices = range(middle) if number % 2 else range(middle, len(letters))
        others = letters[middle:] if number % 2 else letters[:middle]
        for index in indices:
            label = f"letter 1|{len(letters)}|{number}|{index}|{others}".encode()
            shift = int.from_bytes(hmac.digest(key, label, "sha256")[:8], "big")
            letters[index] = (letters[index] + sign * shift) % _LETTERS
    coded = (chr(letter + ord("a")) for letter in letters)
    return "".join(new.upper() if old.isupper() else new for old, new in zip(word, coded, strict=True))


def flat_order(transform: Transform, shape: tuple[int, ...]) -> "np.ndarray[Any, Any]":
    """Return the flat index in the standard array of each element of the changed one."""
    indices = np.arange(prod(shape)).reshape(shape)
    for axis, order in enumerate(transform["axes"]):
        if order == MIRRORED:
            indices = np.flip(indices, axis)
        elif order != SAME:
            indices = indices.take(order, axis)
    return np.ascontiguousarray(indices).ravel()


def invert_order(order: Any) -> "np.ndarray[Any, Any]":
    """Return the inverse of a permutation."""
    return np.argsort(np.asarray(order, np.intp), kind="stable")


def spread_out(values: Any, shape: tuple[int, ...], dtype: Any) -> "np.ndarray[Any, Any]":
    """Return values along the last axis as an array of all elements, flat; negative ones wrap in unsigned dtypes."""
    return np.broadcast_to(np.asarray(values).astype(dtype), shape or (1,)).ravel()
