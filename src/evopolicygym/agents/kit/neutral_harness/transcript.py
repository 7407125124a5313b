"""A transcript: a JSON line for each thing said between an agent of ours and its model."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.text import now

MOST_BYTES = 64 << 20
"""The most that is kept of what a run's agent says."""


class Transcript:
    """Appends to one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._room = MOST_BYTES - (path.stat().st_size if path.exists() else 0)

    def write(self, role: str, **what: object) -> None:
        """Append a line while there is room; a full disk stops no agent."""
        line: Mapping[str, object] = {"time": now(), "role": role, **what}
        data = json.dumps(line) + "\n"
        self._room -= len(data)
        if self._room < 0:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with regular_file.appender(self._path) as file:
                file.write(data.encode())
