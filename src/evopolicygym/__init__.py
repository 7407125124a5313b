"""EvoPolicyGym: how well does an agent improve a policy through feedback?

``run`` plays a run, ``load_runs`` reads runs that were played, ``leaderboard``, ``compare``, ``effects``, ``headroom``
and ``diagnose`` look at them, ``audit`` looks at what an agent did, ``verify`` checks a record. What lies where in the
package, and what may import what, is described in ``docs/architecture.md``.
"""

from importlib import import_module

from evopolicygym.version import __version__

TYPE_CHECKING = False
"""Read by type checkers as that of ``typing``, which takes a moment to load: the program starts here."""
if TYPE_CHECKING:
    from evopolicygym.agents.kit.evaluator import Evaluator
    from evopolicygym.agents.kit.session import Feedback, Session
    from evopolicygym.api.comparison import compare
    from evopolicygym.api.conduct import audit
    from evopolicygym.api.diagnosis import diagnose
    from evopolicygym.api.effects import effects
    from evopolicygym.api.headroom import headroom
    from evopolicygym.api.leaderboard import leaderboard
    from evopolicygym.api.play import RunInterrupted, resume, run
    from evopolicygym.api.records import load_environment, load_run
    from evopolicygym.api.run import Run
    from evopolicygym.api.serve import ServedSession, serve
    from evopolicygym.api.verification import verify
    from evopolicygym.export.schema.tables import load_runs

_MODULES = {
    "Evaluator": "agents.kit.evaluator",
    "Feedback": "agents.kit.session",
    "Run": "api.run",
    "RunInterrupted": "api.play",
    "ServedSession": "api.serve",
    "Session": "agents.kit.session",
    "audit": "api.conduct",
    "compare": "api.comparison",
    "diagnose": "api.diagnosis",
    "effects": "api.effects",
    "headroom": "api.headroom",
    "leaderboard": "api.leaderboard",
    "load_environment": "api.records",
    "load_run": "api.records",
    "load_runs": "export.schema.tables",
    "resume": "api.play",
    "run": "api.play",
    "serve": "api.serve",
    "verify": "api.verification",
}
"""Where each public name is defined: its module is loaded when the name is asked for."""
__all__ = [
    "Evaluator",
    "Feedback",
    "Run",
    "RunInterrupted",
    "ServedSession",
    "Session",
    "__version__",
    "audit",
    "compare",
    "diagnose",
    "effects",
    "headroom",
    "leaderboard",
    "load_environment",
    "load_run",
    "load_runs",
    "resume",
    "run",
    "serve",
    "verify",
]


def __getattr__(name: str) -> object:
    """Load what is in the public interface when it is first asked for: importing the package costs nothing."""
    if name in _MODULES:
        globals()[name] = found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, those that are not loaded yet too."""
    return sorted(__all__)
