"""EvoPolicyGym: how well does an agent improve a policy through feedback?

``run`` plays a run, ``run_suite`` many, and ``estimate`` says what one will use. ``load_run`` and ``load_runs`` read
them, ``leaderboard``, ``compare``, ``effects``, ``headroom`` and ``diagnose`` measure them, ``power`` says how many a
comparison takes, ``audit`` looks at what an agent did, ``verify`` checks a record, ``export_runs``, ``bundle`` and
``write_report`` write files, ``TrainingEnvironment`` and ``TextEnvironment`` play sessions to train agents on,
``load_environment`` returns a ``gymnasium.Env``, and ``errors`` holds the exceptions.

Once this package and Gymnasium are imported, in any order, ``gymnasium.make("evopolicygym/<task>")`` makes each task.
"""

import sys
from importlib import import_module

from evopolicygym.version import __version__

TYPE_CHECKING = False
"""Read by type checkers as that of ``typing``, which takes a moment to load: the program starts here."""
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from evopolicygym import errors
    from evopolicygym.agents.kit.evaluator import Evaluator
    from evopolicygym.agents.kit.session import Feedback, Session
    from evopolicygym.analysis.run_tables import load_runs
    from evopolicygym.api.play.checks import (
        check_agent,
        check_diagnostic,
        check_environment,
        check_executor,
        check_exporter,
        check_figure,
        check_sandbox,
        check_tracker,
    )
    from evopolicygym.api.play.estimate import estimate
    from evopolicygym.api.play.listing import list_agents, list_environments, load_bare_environment, load_environment
    from evopolicygym.api.play.replay import post_hoc
    from evopolicygym.api.play.run import RunInterrupted, resume, run
    from evopolicygym.api.play.serve import ServedSession, serve
    from evopolicygym.api.play.suite import run_suite
    from evopolicygym.api.read.diagnosis import audit, diagnose
    from evopolicygym.api.read.outputs import bundle, export_runs, write_report
    from evopolicygym.api.read.power import power
    from evopolicygym.api.read.results import compare, effects, headroom, leaderboard
    from evopolicygym.api.read.run import Run, load_run
    from evopolicygym.api.read.verify import verify
    from evopolicygym.records.rows import EditRow, EpisodeRow, SubmissionRow
    from evopolicygym.training.environment import TextEnvironment, TrainingEnvironment

_MODULES = {
    "EditRow": "records.rows",
    "EpisodeRow": "records.rows",
    "Evaluator": "agents.kit.evaluator",
    "Feedback": "agents.kit.session",
    "Run": "api.read.run",
    "RunInterrupted": "api.play.run",
    "ServedSession": "api.play.serve",
    "Session": "agents.kit.session",
    "SubmissionRow": "records.rows",
    "TextEnvironment": "training.environment",
    "TrainingEnvironment": "training.environment",
    "audit": "api.read.diagnosis",
    "bundle": "api.read.outputs",
    "check_agent": "api.play.checks",
    "check_diagnostic": "api.play.checks",
    "check_environment": "api.play.checks",
    "check_executor": "api.play.checks",
    "check_exporter": "api.play.checks",
    "check_figure": "api.play.checks",
    "check_sandbox": "api.play.checks",
    "check_tracker": "api.play.checks",
    "compare": "api.read.results",
    "diagnose": "api.read.diagnosis",
    "effects": "api.read.results",
    "estimate": "api.play.estimate",
    "export_runs": "api.read.outputs",
    "headroom": "api.read.results",
    "leaderboard": "api.read.results",
    "list_agents": "api.play.listing",
    "list_environments": "api.play.listing",
    "load_bare_environment": "api.play.listing",
    "load_environment": "api.play.listing",
    "load_run": "api.read.run",
    "load_runs": "analysis.run_tables",
    "post_hoc": "api.play.replay",
    "power": "api.read.power",
    "resume": "api.play.run",
    "run": "api.play.run",
    "run_suite": "api.play.suite",
    "serve": "api.play.serve",
    "verify": "api.read.verify",
    "write_report": "api.read.outputs",
}
"""Where each public name is defined: its module is loaded when the name is first used."""
__all__ = [
    "EditRow",
    "EpisodeRow",
    "Evaluator",
    "Feedback",
    "Run",
    "RunInterrupted",
    "ServedSession",
    "Session",
    "SubmissionRow",
    "TextEnvironment",
    "TrainingEnvironment",
    "__version__",
    "audit",
    "bundle",
    "check_agent",
    "check_diagnostic",
    "check_environment",
    "check_executor",
    "check_exporter",
    "check_figure",
    "check_sandbox",
    "check_tracker",
    "compare",
    "diagnose",
    "effects",
    "errors",
    "estimate",
    "export_runs",
    "headroom",
    "leaderboard",
    "list_agents",
    "list_environments",
    "load_bare_environment",
    "load_environment",
    "load_run",
    "load_runs",
    "post_hoc",
    "power",
    "resume",
    "run",
    "run_suite",
    "serve",
    "verify",
    "write_report",
]


def __getattr__(name: str) -> object:
    """Load what is in the public interface when it is first asked for: importing the package costs nothing."""
    if name == "errors":
        return import_module(f"{__name__}.errors")
    if name in _MODULES:
        globals()[name] = value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, those that are not loaded yet too."""
    return sorted(__all__)


_REGISTRY = "gymnasium.envs"


def _register_ids() -> None:
    import_module(f"{__name__}.environments.gymnasium_ids").register_ids()


class _AfterGymnasium:
    """A finder of modules that registers the tasks once Gymnasium's registry is there; it finds nothing else."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> "ModuleSpec | None":
        """Return the registry's module, which registers the tasks after it was executed; None for any other."""
        if name != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec: ModuleSpec | None = import_module("importlib.util").find_spec(name)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def execute_and_register(module: "ModuleType") -> None:
                execute(module)
                _register_ids()

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign] # of this loader alone
        return spec


if _REGISTRY in sys.modules:
    _register_ids()
else:
    sys.meta_path.insert(0, _AfterGymnasium())
