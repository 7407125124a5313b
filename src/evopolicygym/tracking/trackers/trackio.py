"""Trackio: a project in Trackio's local directory; its environment variables may name a Space or a server."""

from collections.abc import Mapping

from evopolicygym.tracking.tracker import PROJECT, TrackedRun


class TrackioTracker:
    """Logs into the project ``evopolicygym``; a new Space is private."""

    def __init__(self, run: TrackedRun) -> None:
        import trackio

        self._run = trackio.init(
            PROJECT,
            name=run.name,
            group=run.group,
            config=dict(run.config),
            resume="allow",
            private=True,
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )

    def log(self, episodes_spent: int, values: Mapping[str, float]) -> None:
        """Log numbers at a step."""
        self._run.log(dict(values), step=episodes_spent)

    def close(self, summary: Mapping[str, str | float]) -> None:  # noqa: ARG002 - its runs have no summary
        """Wait until everything is stored."""
        self._run.finish()


def make(run: TrackedRun) -> TrackioTracker:
    """Return the tracker."""
    return TrackioTracker(run)
