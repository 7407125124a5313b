"""EvoPolicyGym: how well does an agent improve a policy through feedback?

The rooms of the house, and which may import which, are drawn in ``docs/architecture.md``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evopolicygym.export.tables import load_runs

__version__ = "0.1.0"
__all__ = ["__version__", "load_runs"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is asked for
    """Load what is in the public interface when it is asked for: importing the package costs nothing."""
    if name == "load_runs":
        return import_module("evopolicygym.export.tables").load_runs
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, those that are not loaded yet too."""
    return sorted(__all__)
