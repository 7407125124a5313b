"""Times ``evopolicygym leaderboard`` over many runs, as a person would type it, and its peak memory.

    python benchmarks/leaderboard.py [--runs 500] [--repeats 3] [--json]

The runs: made event logs on the specs of Core16, 32 held-out returns each, and as many agents with two repeats on each
task as make the number asked for. The program is started afresh for each repeat; the first one checks every record.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from evopolicygym.analysis.published.score_tables import paper
from evopolicygym.specs import catalog
from made_records import write_many_made

GOAL_S, GOAL_MB = 3.0, 500.0
REPEATS = 2
TASKS = [catalog.load(task) for task in sorted(paper().tasks)]


def measured(runs: Path) -> tuple[float, float, float]:
    """Return seconds, seconds of processor time, and MiB of one start of the program."""
    began = perf_counter()
    with tempfile.TemporaryFile("w+") as printed:
        command = [
            sys.executable,
            "-m",
            "evopolicygym",
            "leaderboard",
            str(runs),
            "--tables",
            "paper",
            "--format",
            "csv",
        ]
        process = subprocess.Popen(command, stdout=printed)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        if process.returncode or "agent-00" not in printed.read():
            sys.exit("the leaderboard failed, or left the runs out")
    return perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Make the runs, time the program, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        agents = [f"agent-{number:02d}" for number in range(-(-asked.runs // (len(TASKS) * REPEATS)))]
        count = write_many_made(Path(place) / "runs", agents, REPEATS, TASKS)
        found = [measured(Path(place) / "runs") for _ in range(asked.repeats)]
    figures = {
        "runs": count,
        "entries": len(agents),
        "seconds": min(seconds for seconds, _, _ in found),
        "worst_seconds": max(seconds for seconds, _, _ in found),
        "processor_seconds": min(seconds for _, seconds, _ in found),
        "peak_mb": max(memory for _, _, memory in found),
        "goal_seconds": GOAL_S,
        "goal_mb": GOAL_MB,
    }
    print(
        json.dumps(figures, indent=2) if asked.json else "\n".join(f"{key:>17}  {figures[key]:.5g}" for key in figures)
    )


if __name__ == "__main__":
    main()
