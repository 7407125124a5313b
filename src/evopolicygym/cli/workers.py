"""``--workers``: how many episodes play at once, no more than there is something for."""

import os

from evopolicygym.cli.console import warn
from evopolicygym.core.run_options import LOCAL


def capped(workers: int | None, executor: str, episodes: int | None = None) -> int | None:
    """Return how many workers are started here, with a note where fewer would do as much as were asked for.

    ``episodes`` are the most that can play at once. What a cluster has is for its executor to know.
    """
    if workers is None or executor != LOCAL:
        return workers
    cores = len(os.sched_getaffinity(0))
    most = min(cores, episodes or cores)
    if workers > most:
        why = f"{cores} cores" if most == cores else f"{episodes} episodes at once"
        warn(f"--workers {workers} was asked for; there are {why}, so {most} are started.")
    return min(workers, most)
