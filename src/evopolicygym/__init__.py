"""EvoPolicyGym: how well does an agent improve a policy through feedback?

The rooms of the house, and which may import which, are drawn in ``docs/architecture.md``.
"""

from importlib import import_module

TYPE_CHECKING = False
"""Read by type checkers as that of ``typing``, which takes a moment to load: the program starts here."""
if TYPE_CHECKING:
    from evopolicygym.export.schema.tables import load_runs

__version__ = "0.1.0"
__all__ = ["__version__", "load_runs"]


def __getattr__(name: str) -> object:
    """Load what is in the public interface when it is asked for: importing the package costs nothing."""
    if name == "load_runs":
        return import_module("evopolicygym.export.schema.tables").load_runs
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, those that are not loaded yet too."""
    return sorted(__all__)
