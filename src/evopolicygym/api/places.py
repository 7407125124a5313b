"""Where a program says that runs lie: one place or several, each a directory, or a run by its id."""

from collections.abc import Iterable
from pathlib import Path

from evopolicygym.records.run_names import named_run

Places = str | Path | Iterable[str | Path]
"""A run (its directory, its id, the beginning of one, or ``latest``), a directory with runs below, or several."""


def places_of(runs: Places, below: str | Path) -> list[Path]:
    """Return directories; ids are looked for below a directory. Raises ``UsageError`` for what is not there."""
    several = [runs] if isinstance(runs, str | Path) else list(runs)
    return [named_run(Path(one), Path(below)) for one in several]
