"""A line of JSON for each request at a model proxy: what it took, never what it said.

No key, no body and no header is ever written. The sums are not here but in ``ledger.py``.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.text import now
from evopolicygym.model_proxy.usage import Usage
from evopolicygym.model_proxy.wire import Wire

MAX_BYTES = 16 << 20
MAX_REFUSALS = 1000
"""Refused requests that get a line: a program that does nothing else can't push out the lines of the others."""
CUT = {"note": "what came after this was not kept"}


def passed(wire: Wire, status: int, seconds: float, usage: Usage | None, **what: object) -> dict[str, object]:
    """Return the line of a request that was passed on; what was not reported of its usage is null in it."""
    took = asdict(usage or Usage())
    return {"time": now(), "wire": wire, "status": status or None, "seconds": round(seconds, 3), **took, **what}


class ModelLog:
    """Appends to one file."""

    def __init__(self, path: Path | None) -> None:
        """Write into ``path``, or nowhere."""
        self._path = path
        self._refusals = 0
        self._room = MAX_BYTES
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._room -= path.stat().st_size if path.exists() else 0

    def write(self, line: Mapping[str, object]) -> None:
        """Append a line while there is room."""
        if "refused" in line:
            self._refusals += 1
            if self._refusals > MAX_REFUSALS:
                return
        if self._path is None or self._room <= 0:
            return
        text = json.dumps(line) + "\n"
        self._room -= len(text)
        if self._room <= 0:
            text = json.dumps(CUT) + "\n"
        # A full disk stops no model.
        with contextlib.suppress(OSError), regular_file.appender(self._path) as file:
            file.write(text.encode())
