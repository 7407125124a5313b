"""Formatting for people: times, numbers, counts, and untrusted text with control characters escaped."""

import csv
import io
import json
import math
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from time import time

MOST_VERSION = 80
"""Characters of a version in a record."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def now() -> str:
    """Return the current time, ISO 8601 in UTC with milliseconds."""
    return iso_time(datetime.now(UTC))


def iso_time(time: datetime) -> str:
    """Return a time in UTC, ISO 8601 with milliseconds."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_of(time: str) -> float | None:
    """Return an ISO time in seconds; None where it is none."""
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(time).timestamp()
    return None


def unix_time() -> float:
    """Return the current time in seconds since 1970 UTC."""
    return time()


def printable(text: str) -> str:
    """Return a text in one line with non-printable characters (controls, direction marks) escaped.

    Markup of table formats (HTML, LaTeX) is not escaped here but by the writers.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _spelled(char) for char in text)


def version_line(text: str) -> str:
    """Return a text's line with a version, else its first, for a record: printable, at most ``MOST_VERSION`` long."""
    lines = [line for line in text.splitlines() if line.strip()]
    line = next((line for line in lines if re.search(r"\d\.\d", line)), next(iter(lines), ""))
    return printable(" ".join(line.split()))[:MOST_VERSION]


def printable_lines(text: str) -> str:
    """Return a text as ``printable`` does, but keep line ends and tabs."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if char in "\n\t" or char.isprintable() else _spelled(char) for char in text)


def well_formed(text: str) -> str:
    """Return a text that UTF-8 can encode: lone surrogates are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shell_word(name: object) -> str:
    """Return a path or name as a word of a command that people paste: quoted, in one printable line, and no option.

    A name that can't be printed is spelled out, so that the command finds nothing instead of something else.
    """
    word = printable(str(name))
    return quote(f"./{word}" if word.startswith("-") else word)


def csv_text(text: str) -> str:
    """Return a text as a CSV cell that no spreadsheet calculates: what begins as a formula does gets an apostrophe.

    All our CSVs have it, so that labels of two of them match. Numbers are left as they are.
    """
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


def csv_line(cells: Iterable[str]) -> str:
    """Return a line of a CSV (RFC 4180); it ends in a line feed, and a cell with any line end is quoted."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)  # Python quotes only the line ends that it writes itself
    return line.getvalue().removesuffix("\r\n") + "\n"


def without_directories(text: str, directories: Iterable[Path]) -> str:
    """Return a text to be given away: paths below directories become relative, and the user's home becomes ``~``.

    A directory itself becomes its last name. Paths are found as they are, resolved, as ``printable`` shows them and as
    JSON has them. The root directory is kept.
    """
    names: dict[str, str] = {}
    for directory in directories:
        for path in (directory.absolute(), directory.resolve()):
            names.setdefault(str(path), path.name)
    with suppress(RuntimeError):
        names.setdefault(str(Path.home()), "~")
    for prefix, name in sorted(names.items(), key=lambda item: -len(item[0])):
        if prefix == "/":
            continue
        for form in dict.fromkeys((prefix, printable(prefix), json.dumps(prefix)[1:-1])):
            text = text.replace(f"{form}/", "" if name != "~" else "~/").replace(form, name)
    return text


def _spelled(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii") if char != "\xa0" else " "


FEWEST, MOST = 2, 6
"""Bounds on decimals."""
OF_ERROR, OF_VALUE = 2, 4
"""Significant digits of a standard error, and of a number without a standard error."""
WHOLE_ERROR, WHOLE_VALUE = 100, 10_000
"""A standard error, and a number without one, from which on there are no decimals."""


def decimals(value: float, standard_error: float | None = None) -> int:
    """Return the decimals to show: 4 for 0.9871, 5 for 0.98713 ± 0.00021, 2 for -98.22 ± 3.84, 0 for 1,596 ± 372."""
    known = standard_error is not None and math.isfinite(standard_error) and standard_error > 0
    size, digits, whole = (standard_error, OF_ERROR, WHOLE_ERROR) if known else (abs(value), OF_VALUE, WHOLE_VALUE)
    if not size or not math.isfinite(size):
        return FEWEST
    if size >= whole:
        return 0
    return min(max(digits - 1 - math.floor(math.log10(size)), FEWEST), MOST)


def number(value: float | None, digits: int | None = None, error: float | None = None) -> str:
    """Return a number for a table, by default with the decimals that fit its standard error; a dash for None."""
    if value is None:
        return "-"
    return f"{value:,.{decimals(value, error) if digits is None else digits}f}"


def plus_minus(mean: float | None, error: float | None) -> str:
    """Return a mean, with its standard error if that is known; a dash for an unknown mean."""
    return number(mean, error=error) + ("" if error is None else f" ± {number(error, error=error)}")


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, which gets an s unless the count is 1."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return a duration as hours and minutes, or minutes and seconds."""
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}h{rest // 60:02d}m" if hours else f"{rest // 60}m{rest % 60:02d}s"
