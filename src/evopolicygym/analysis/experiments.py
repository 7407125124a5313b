"""What experiments are called: the directory of runs has a name, the record has only an identity."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError
from evopolicygym.core.printable import printable

MOST_BYTES = 1 << 20
"""Of an ``experiment.json``, which holds an identity and nothing else."""
FILE = "experiment.json"
"""Lies in an experiment's directory and holds its identity."""
SHORT = 8
"""Characters of an identity that are shown."""


def name_of(run: Path, identity: str) -> str:
    """Return the name of a run's experiment: that of the directory above it that is the experiment's; empty if none."""
    for directory in run.parents:
        if _identity(directory / FILE) == identity:
            return printable(directory.name)
    return ""


def shown(names: Mapping[str, str]) -> dict[str, str]:
    """Return what experiments are called in a table, by identity: by name where that tells them apart."""
    borne = Counter(names.values())
    return {
        identity: name if name and borne[name] == 1 else " ".join(filter(None, (name, _short(identity, names))))
        for identity, name in names.items()
    }


def _short(identity: str, all_of_them: Iterable[str]) -> str:
    alike = [one for one in all_of_them if one.startswith(identity[:SHORT])]
    return identity[:SHORT] if len(alike) == 1 else identity


def _identity(file: Path) -> str | None:
    try:
        document = json.loads(regular_file.read(file, MOST_BYTES))
    except (OSError, RecordError, ValueError, RecursionError):
        return None
    return str(document.get("experiment")) if isinstance(document, dict) else None
