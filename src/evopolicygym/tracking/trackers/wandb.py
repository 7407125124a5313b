"""Weights & Biases: offline unless the user's settings choose a mode; ``wandb sync`` uploads it later."""

import os
from collections.abc import Mapping

from evopolicygym.tracking.tracker import PROJECT, TrackedRun

STEP = "episodes_spent"
"""The x axis: the library's own step may not decrease, but validation results come after all submissions."""


class WandbTracker:
    """Logs numbers and configuration only: nothing of the machine, the code, the packages or the console."""

    def __init__(self, run: TrackedRun) -> None:
        import wandb

        run.directory.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=run.run_id,
            name=run.name,
            group=run.group,
            config=dict(run.config),
            dir=str(run.directory),
            mode=None if mode_chosen() else "offline",
            resume="allow",
            settings=wandb.Settings(
                console="off",
                disable_code=True,
                disable_git=True,
                host="",
                silent=True,
                x_disable_machine_info=True,
                x_disable_meta=True,
                x_disable_stats=True,
                x_save_requirements=False,
            ),
        )
        self._run.define_metric(STEP, hidden=True)
        self._run.define_metric("*", step_metric=STEP)

    def log(self, episodes_spent: int, values: Mapping[str, float]) -> None:
        """Log numbers with the step among them."""
        self._run.log({STEP: episodes_spent, **values})

    def close(self, summary: Mapping[str, str | float]) -> None:
        """Write the summary, and wait until everything is stored."""
        self._run.summary.update(dict(summary))
        self._run.finish(exit_code=0)


def mode_chosen() -> bool:
    """Return whether the user chose a mode: by ``WANDB_MODE``, or in a settings file (``wandb init --mode online``)."""
    import wandb

    return bool(os.environ.get("WANDB_MODE") or wandb.setup().settings.read_system_settings().all().get("mode"))


def make(run: TrackedRun) -> WandbTracker:
    """Return the tracker."""
    return WandbTracker(run)
