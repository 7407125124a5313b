"""Entry point of Inspect AI: the sandbox, the tasks, the solver and the scorer."""

from evopolicygym.inspect_tasks.sandbox import RunSandbox
from evopolicygym.inspect_tasks.tasks import TASKS, policy_improver, run_score

__all__ = ["TASKS", "RunSandbox", "policy_improver", "run_score"]
