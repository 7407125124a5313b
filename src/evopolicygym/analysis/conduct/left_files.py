"""The texts that an agent left in a directory, read without following links and within bounds."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from evopolicygym.analysis.conduct.program import MOST_PROGRAM_BYTES, language_of
from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError

MOST_ENTRIES = 20_000
"""Of a directory, with all below it."""
MOST_DEPTH = 12
"""Directories within directories."""
MOST_BYTES = 32 << 20
"""Of all that is read of one directory."""
MOST_DATA = 64 << 10
"""Bytes of a data file that are read."""
DATA = frozenset({".json", ".jsonl", ".csv", ".txt", ".toml", ".yaml", ".yml"})
"""Suffixes of data that a policy may read its answers from."""
SKIPPED = frozenset({".git", "__pycache__", "node_modules"})


def left_files(directory: Path, root: Path, skipped: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Yield programs and data below a directory by their POSIX paths; ``skipped`` are names at its top.

    Links, devices and what can't be read are passed over: what lies there is the agent's.
    """
    left = MOST_BYTES
    for path in sorted(_below(directory, skipped)):
        is_data = path.suffix.lower() in DATA
        if not is_data and not language_of(path.name) and path.suffix:
            continue
        try:
            with regular_file.reader(path, root) as file:
                content = file.read(MOST_DATA if is_data else MOST_PROGRAM_BYTES)
        except (OSError, RecordError):
            continue
        left -= len(content)
        if left < 0:
            return
        yield path.relative_to(directory).as_posix(), content.decode("utf-8", "replace")


def _below(directory: Path, skipped: frozenset[str]) -> Iterator[Path]:
    entries, waiting = 0, [(directory, 0)]
    while waiting:
        at, depth = waiting.pop()
        try:
            with os.scandir(at) as found:
                for entry in found:
                    entries += 1
                    if entries > MOST_ENTRIES:
                        return
                    mode = entry.stat(follow_symlinks=False).st_mode
                    if entry.name in SKIPPED or (depth == 0 and entry.name in skipped):
                        continue
                    if stat.S_ISDIR(mode) and depth < MOST_DEPTH:
                        waiting.append((Path(entry.path), depth + 1))
                    elif stat.S_ISREG(mode):
                        yield Path(entry.path)
        except OSError:
            continue
