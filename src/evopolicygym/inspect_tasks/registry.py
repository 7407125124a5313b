"""Entry point of Inspect AI: the sandbox, the tasks, the solver and the scorer."""

from importlib.metadata import version

from evopolicygym.core.errors import UsageError

TESTED = "0.3.285"
"""The version of Inspect in ``constraints.txt``. Others may lack private names that the sandbox uses."""

try:
    from evopolicygym.inspect_tasks.sandbox import RunSandbox
    from evopolicygym.inspect_tasks.tasks import TASKS, policy_improver, run_score
except ImportError as error:
    raise UsageError(
        f"Invalid inspect-ai {version('inspect_ai')}: expected {TESTED}, or another version that has what these tasks "
        f"use ({error}). Install it with: pip install inspect-ai=={TESTED}"
    ) from error

__all__ = ["TASKS", "RunSandbox", "policy_improver", "run_score"]
