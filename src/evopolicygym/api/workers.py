"""How many episodes play at once: no more than there is something for."""

import os
from collections.abc import Callable

from evopolicygym.core.run_options import LOCAL
from evopolicygym.core.task import Task


def capped(
    workers: int | None, executor: str, on_note: Callable[[str], object], task: Task | None = None
) -> int | None:
    """Return how many workers are started here, with a note where fewer would do as much as were asked for.

    What a cluster has is for its executor to know.
    """
    if workers is None or executor != LOCAL:
        return workers
    cores = len(os.sched_getaffinity(0))
    episodes = max(task.budget.episodes, task.validation_cases, task.held_out_cases) if task else cores
    most = min(cores, episodes)
    if workers > most:
        why = f"{cores} cores" if most == cores else f"{episodes} episodes at once"
        on_note(f"--workers {workers} was asked for; there are {why}, so {most} are started.")
    return min(workers, most)
