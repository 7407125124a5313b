"""What ships and is wanted beside runs, by name: tables whose entries stand among theirs, and figures that don't."""

from collections.abc import Sequence
from dataclasses import dataclass

from evopolicygym.analysis.published.other_protocol import OtherFigures, other_figures, other_names
from evopolicygym.analysis.published.score_tables import PublishedTable, shipped, shipped_names
from evopolicygym.core.errors import UnknownName


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside runs."""

    tables: tuple[PublishedTable, ...]
    figures: tuple[OtherFigures, ...]
    """In tables of their own."""

    @property
    def ids(self) -> dict[str, str]:
        """What gymnasium registers the tasks of the tables as, by name."""
        return {name: task.game.id for table in self.tables for name, task in table.tasks.items()}


def beside(names: Sequence[str]) -> Beside:
    """Return what ships under some names; raise ``UnknownName`` where nothing does."""
    tables, others = shipped_names(), other_names()
    for name in names:
        if name not in (known := sorted([*tables, *others])):
            raise UnknownName("shipped table", name, known)
    return Beside(
        tuple(shipped(name) for name in names if name in tables),
        tuple(other_figures(name) for name in names if name in others),
    )
