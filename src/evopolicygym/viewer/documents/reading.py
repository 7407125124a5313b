"""Reading untrusted files in a run's directory: no link is followed, no file is read beyond a bound.

It returns bytes and text; what a file means is for its caller.
"""

import re
import stat
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError
from evopolicygym.core.text import printable_lines

MOST_TEXT = 64 * 1024
"""Bytes of one text that a document holds; the rest is reported by its size, or comes by the page."""
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The beginning of a text."""

    text: str
    size: int
    """Bytes of the whole."""
    cut: bool

    def document(self) -> dict[str, object]:
        """Return it as a document holds it."""
        return {"text": self.text, "size": self.size, "cut": self.cut}


def within(root: Path, *names: str) -> Path | None:
    """Return what lies below a run's directory under plain names; None where it isn't there, or a link leads there."""
    path = root
    for name in names:
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            return None
        path /= name
        try:
            if stat.S_ISLNK(path.lstat().st_mode):
                return None
        except (OSError, ValueError):
            return None
    return path


def below(root: Path, path: Path) -> Path | None:
    """Return a path of ``RunPaths`` where no link leads to it, and it is there; else None."""
    return within(root, *path.relative_to(root).parts) if path.is_relative_to(root) else None


def read_bytes(path: Path | None, most: int, offset: int = 0) -> bytes | None:
    """Return at most so many bytes of a regular file; None of what is no such file, or can't be read."""
    if path is None:
        return None
    try:
        with regular_file.reader(path) as file:
            file.seek(offset)
            return file.read(most)
    except (OSError, RecordError):
        return None


def excerpt(path: Path | None, most: int = MOST_TEXT) -> Excerpt | None:
    """Return the beginning of a file as text that is safe to show; None where there is no such file."""
    content = read_bytes(path, most)
    if path is None or content is None:
        return None
    size = max(path.lstat().st_size, len(content))
    return Excerpt(shown(content), size, cut=size > len(content))


def shown(content: bytes | str) -> str:
    """Return a text without a terminal's colours, every other character that isn't printed spelled out."""
    text = content.decode("utf-8", "backslashreplace") if isinstance(content, bytes) else content
    return printable_lines(_ANSI.sub("", text.replace("\r\n", "\n")))
