"""Text for people: times, numbers and counts as they are shown, and untrusted text with what acts on it spelled out."""

import math
from datetime import UTC, datetime
from time import time


def now() -> str:
    """Return the present time, ISO 8601 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def unix_time() -> float:
    """Return the present time, in seconds since 1970 in UTC, for formats that write it so."""
    return time()


def printable(text: str) -> str:
    """Return a text in one line with every character that isn't printed (escapes, direction marks) spelled out.

    Characters to which a format of tables gives a meaning (markup, HTML, LaTeX) stay: each writer escapes its own.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _spelled(char) for char in text)


def printable_lines(text: str) -> str:
    """Return a text as ``printable`` does, but for the ends of its lines and tabs, which stay."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if char in "\n\t" or char.isprintable() else _spelled(char) for char in text)


def well_formed(text: str) -> str:
    """Return a text as UTF-8 can hold it: halves of surrogate pairs, which Python can hold, are spelled out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _spelled(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii") if char != "\xa0" else " "


FEWEST, MOST = 2, 6
"""Decimals."""
OF_ERROR, OF_VALUE = 2, 4
"""Significant digits that are shown of a standard error, and of a number whose error is unknown or nothing."""


def decimals(value: float, standard_error: float | None = None) -> int:
    """Return with how many decimals a number is shown: 4 of 0.9871, 5 of 0.98713 ± 0.00021, 2 of -98.22 ± 3.84."""
    known = standard_error is not None and math.isfinite(standard_error) and standard_error > 0
    size, digits = (standard_error, OF_ERROR) if known else (abs(value), OF_VALUE)
    if not size or not math.isfinite(size):
        return FEWEST
    return min(max(digits - 1 - math.floor(math.log10(size)), FEWEST), MOST)


def number(value: float | None, digits: int | None = None, error: float | None = None) -> str:
    """Return a number for a table, by default with the decimals that its standard error leaves; a dash for none."""
    if value is None:
        return "-"
    return f"{value:,.{decimals(value, error) if digits is None else digits}f}"


def plus_minus(mean: float | None, error: float | None) -> str:
    """Return a mean with its standard error, a dash where that is unknown."""
    return f"{number(mean, error=error)} ± {number(error, error=error)}"


def counted(count: int, noun: str) -> str:
    """Return how many there are of what a noun names, which takes an s where they are not one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return a time as a person reads it, whole seconds or minutes."""
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}h{rest // 60:02d}m" if hours else f"{rest // 60}m{rest % 60:02d}s"
