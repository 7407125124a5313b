"""MLflow: a database in a local directory, unless ``MLFLOW_TRACKING_URI`` names another place."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from evopolicygym.tracking.tracker import PROJECT, TrackedRun

TAG = "evopolicygym.run"
"""The tag with the run's id."""


class MlflowTracker:
    """Logs one run of the experiment ``evopolicygym``."""

    def __init__(self, run: TrackedRun) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when the package is imported
        from mlflow import MlflowClient

        run.directory.mkdir(parents=True, exist_ok=True)
        uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{run.directory.absolute() / 'mlflow.db'}"
        with _lock(run.directory / "mlflow.lock"):
            self._client = MlflowClient(uri)
            experiment = self._experiment(run)
        runs = self._client.search_runs([experiment], f"tags.`{TAG}` = '{run.run_id}'", max_results=1)
        if runs:
            self._id = runs[0].info.run_id
            self._client.update_run(self._id, status="RUNNING")
            return
        tags = {TAG: run.run_id, "mlflow.runName": run.name, "task": run.group}
        self._id = self._client.create_run(experiment, tags=tags).info.run_id
        for name, value in run.config.items():
            if value is not None:
                self._client.log_param(self._id, name, value)

    def _experiment(self, run: TrackedRun) -> str:
        if experiment := self._client.get_experiment_by_name(PROJECT):
            return str(experiment.experiment_id)
        artifacts = None if os.environ.get("MLFLOW_TRACKING_URI") else str(run.directory / "mlflow-artifacts")
        return str(self._client.create_experiment(PROJECT, artifacts))

    def log(self, episodes_spent: int, values: Mapping[str, float]) -> None:
        """Log each number at a step."""
        for name, value in values.items():
            self._client.log_metric(self._id, name, value, step=episodes_spent)

    def close(self, summary: Mapping[str, str | float]) -> None:
        """Set the run's status."""
        self._client.set_tag(self._id, "status", summary["status"])
        self._client.set_terminated(self._id, "KILLED" if summary["status"] == "stopped" else "FINISHED")


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Lock the database: runs of a suite start together, and MLflow can't create its tables concurrently."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def make(run: TrackedRun) -> MlflowTracker:
    """Return the tracker."""
    return MlflowTracker(run)
