"""EvoPolicyGym: how well does an agent improve a policy through feedback?

``run`` plays a run, ``load_runs`` reads runs that were played, ``leaderboard``, ``compare`` and ``diagnose`` look at
them, ``verify`` checks a record. What lies where in the package, and what may import what, is described in
``docs/architecture.md``.
"""

from importlib import import_module

from evopolicygym.version import __version__

TYPE_CHECKING = False
"""Read by type checkers as that of ``typing``, which takes a moment to load: the program starts here."""
if TYPE_CHECKING:
    from evopolicygym.agents.kit.evaluator import Evaluator
    from evopolicygym.agents.kit.session import Feedback, Session
    from evopolicygym.api.comparison import compare
    from evopolicygym.api.diagnosis import diagnose
    from evopolicygym.api.leaderboard import leaderboard
    from evopolicygym.api.play import resume, run
    from evopolicygym.api.records import load_environment, load_run
    from evopolicygym.api.run import Run
    from evopolicygym.api.verification import verify
    from evopolicygym.export.schema.tables import load_runs

_MODULES = {
    "Evaluator": "agents.kit.evaluator",
    "Feedback": "agents.kit.session",
    "Run": "api.run",
    "Session": "agents.kit.session",
    "compare": "api.comparison",
    "diagnose": "api.diagnosis",
    "leaderboard": "api.leaderboard",
    "load_environment": "api.records",
    "load_run": "api.records",
    "load_runs": "export.schema.tables",
    "resume": "api.play",
    "run": "api.play",
    "verify": "api.verification",
}
"""Where each public name is defined: its module is loaded when the name is asked for."""
__all__ = [
    "Evaluator",
    "Feedback",
    "Run",
    "Session",
    "__version__",
    "compare",
    "diagnose",
    "leaderboard",
    "load_environment",
    "load_run",
    "load_runs",
    "resume",
    "run",
    "verify",
]


def __getattr__(name: str) -> object:
    """Load what is in the public interface when it is asked for: importing the package costs nothing."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, those that are not loaded yet too."""
    return sorted(__all__)
