"""How many episodes play at once: no more than there is something for."""

import os

from evopolicygym.core.run_options import LOCAL
from evopolicygym.core.task import Task


def capped(workers: int | None, executor: str, task: Task | None = None) -> tuple[int | None, str]:
    """Return how many workers are started here, and a note where fewer would do as much as were asked for.

    What a cluster has is for its executor to know.
    """
    if workers is None or executor != LOCAL:
        return workers, ""
    cores = len(os.sched_getaffinity(0))
    episodes = max(task.budget.episodes, task.validation_cases, task.held_out_cases) if task else cores
    most = min(cores, episodes)
    if workers <= most:
        return workers, ""
    why = f"{cores} cores" if most == cores else f"{episodes} episodes at once"
    return most, f"--workers {workers} was asked for; there are {why}, so {most} are started."
