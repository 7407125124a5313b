"""Seconds of a run here and on a Ray cluster of this machine: what a cluster adds to a run and to an episode.

    python benchmarks/cluster.py [--repeats 3]

Both sides are ``evopolicygym run TASK --agent random`` with as many workers as processors, by the clock, in turn. Runs
of two sizes tell the start of a run from its episodes. A cluster of one machine has no network and adds no processor,
so what it takes longer is all cost; a cluster pays where an episode takes much longer than what is added to it.
"""

import argparse
import subprocess
import sys
import tempfile
from statistics import median
from time import perf_counter

TASKS = ("cartpole", "acrobot", "half_cheetah")
FEW, MANY = 8, 128
"""Train episodes of the two runs; each also plays one validation and as many held-out episodes."""


def seconds(task: str, executor: str, episodes: int) -> float:
    """Return how long a run takes by the clock."""
    with tempfile.TemporaryDirectory() as runs:
        sizes = ("--budget", str(episodes), "--validation", "1", "--held-out", str(episodes))
        command = (sys.executable, "-m", "evopolicygym", "run", task, "--agent", "random", "--split", "public")
        began = perf_counter()
        subprocess.run(
            [*command, *sizes, "--executor", executor, "--runs", runs], stdout=subprocess.DEVNULL, check=True
        )
        return perf_counter() - began


def main() -> None:
    """Print a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    print("| | a short run, s | on the cluster, s | an episode, ms | on the cluster, ms |\n|---|---|---|---|---|")
    for task in TASKS:
        sides = {executor: ([], []) for executor in ("local", "ray")}
        for _ in range(repeats):
            for executor, (few, many) in sides.items():
                few.append(seconds(task, executor, FEW))
                many.append(seconds(task, executor, MANY))
        starts = [f"{median(few):.1f}" for few, _ in sides.values()]
        each = [f"{1000 * (median(many) - median(few)) / (2 * (MANY - FEW)):.1f}" for few, many in sides.values()]
        print(f"| {task} | {' | '.join(starts)} | {' | '.join(each)} |", flush=True)


if __name__ == "__main__":
    main()
