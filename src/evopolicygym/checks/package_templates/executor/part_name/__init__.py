"""An executor that plays on this machine, and notes each rollout in its log. Replace ``self._local`` by your own."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from evopolicygym.core.rollout import Episode, EpisodeJob, Executor, ExecutorInfo, Rollout, Trial
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import PolicyContext
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor


class NotingExecutor:
    """Plays rollouts of one environment. A job has a seed: send it only to machines that you trust."""

    def __init__(self, config: ExecutorConfig) -> None:
        """Open the executor. ``config.address`` is what the user gave with ``--address``."""
        self._log = config.log
        self._local = LocalExecutor(config)

    @property
    def info(self) -> ExecutorInfo:
        """What the executor offers: spaces, versions, sandbox, workers."""
        return self._local.info

    def load(self, checkpoint: Path, context: PolicyContext) -> LoadError | None:
        """Construct the policy once in the sandbox; return the error, or None."""
        return self._local.load(checkpoint, context)

    def check(self, checkpoint: Path, context: PolicyContext) -> Trial:
        """Construct the policy, reset it and have it act once; no case is played."""
        return self._local.check(checkpoint, context)

    def play(
        self, rollouts: Sequence[Rollout], repeated: Callable[[Rollout, EpisodeJob, str], None]
    ) -> Iterator[tuple[Rollout, EpisodeJob, Episode]]:
        """Play every job of all rollouts, yielding each as it ends, in any order.

        Call ``repeated`` where a case is played again. A worker that is idle begins with the next rollout.
        """
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"part_name: {sum(len(rollout.jobs) for rollout in rollouts)} episodes\n")
        yield from self._local.play(rollouts, repeated)

    def close(self) -> None:
        """Stop all processes and remove temporary files."""
        self._local.close()


def make(config: ExecutorConfig) -> Executor:
    """Return the executor, open."""
    return NotingExecutor(config)
