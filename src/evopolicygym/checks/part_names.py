"""The names of parts by their kind, without loading a part."""

from evopolicygym.agents.base import AGENTS
from evopolicygym.analysis.diagnostic import DIAGNOSTICS
from evopolicygym.analysis.drawing.figure import FIGURES
from evopolicygym.export.exporters import EXPORTERS
from evopolicygym.rollout.executor import EXECUTORS
from evopolicygym.sandbox.levels import BACKENDS
from evopolicygym.specs import catalog
from evopolicygym.tracking.tracker import TRACKERS

_REGISTRIES = {
    "agent": AGENTS,
    "sandbox": BACKENDS,
    "executor": EXECUTORS,
    "tracker": TRACKERS,
    "exporter": EXPORTERS,
    "figure": FIGURES,
    "diagnostic": DIAGNOSTICS,
}


def part_names(kind: str) -> list[str]:
    """Return the names of all parts of a kind, sorted, those of other distributions included."""
    return catalog.names() if kind == "environment" else _REGISTRIES[kind].names()
