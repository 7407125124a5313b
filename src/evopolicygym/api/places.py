"""Where a program says that runs lie: one place or several, each a directory, or a run by its id."""

from collections.abc import Iterable
from pathlib import Path

from evopolicygym.records.run_names import named_run

Places = str | Path | Iterable[str | Path]
"""A run (its directory, its id, the beginning of one, or ``latest``), a directory with runs below, or several."""


def places_of(runs: Places, below: str | Path) -> list[Path]:
    """Return directories; ids are looked for below a directory, which may be named itself.

    Raises ``UsageError`` for an id that no run has.
    """
    several = map(Path, [runs] if isinstance(runs, str | Path) else runs)
    return [one if one == Path(below) else named_run(one, Path(below)) for one in several]
