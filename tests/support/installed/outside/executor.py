"""An executor: this machine's, which first writes into the log where it plays."""

from evopolicygym.core.rollout import Executor
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor


def make(config: ExecutorConfig) -> Executor:
    """Return the executor, open."""
    with config.log.open("a", encoding="utf-8") as log:
        log.write("played next door\n")
    return LocalExecutor(config)
