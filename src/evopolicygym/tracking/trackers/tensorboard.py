"""TensorBoard: event files in a directory for each run, with the configuration as its hyperparameters."""

from collections.abc import Mapping

from evopolicygym.core.text import unix_time
from evopolicygym.tracking.tracker import TrackedRun


class TensorBoardTracker:
    """Writes event files; a resumed run gets a further file, which TensorBoard joins to the first."""

    def __init__(self, run: TrackedRun) -> None:
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(str(run.directory / "tensorboard" / run.run_id))
        if not run.is_resumed:
            known = {name: value for name, value in run.config.items() if value is not None}
            self._add(hparams_pb(known, trial_id=run.run_id))

    def log(self, episodes_spent: int, values: Mapping[str, float]) -> None:
        """Write each number as a scalar."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        scalars = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._add(Summary(value=scalars), episodes_spent)

    def close(self, summary: Mapping[str, str | float]) -> None:
        """Write the summary as a text, and close the file."""
        from tensorboard.plugins.text.summary_v2 import text_pb

        self._add(text_pb("summary", "\n".join(f"- {name}: {value}" for name, value in summary.items())))
        self._writer.close()

    def _add(self, summary: object, step: int = 0) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(wall_time=unix_time(), step=step, summary=summary))
        self._writer.flush()


def make(run: TrackedRun) -> TensorBoardTracker:
    """Return the tracker."""
    return TensorBoardTracker(run)
