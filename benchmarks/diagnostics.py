"""How long it takes to diagnose a run of 128 submissions, each of which changes a module of a bundle of five files.

``python benchmarks/diagnostics.py``: milliseconds of processor time to read the record, and of each diagnostic; the
first one that reads a bundle is the one that parses it. The best of three, each of a run that was not read before.
"""

import sys
import tempfile
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from diagnosed import FROM_NOTHING, closing, recorded, submitted
from evopolicygym.analysis.diagnostic import DIAGNOSTICS
from evopolicygym.core.task import BudgetRule, Task
from evopolicygym.records.reader import read_run
from fakes import opening

SUBMISSIONS = 128
FILES = 5
FUNCTION = """def plan_{0}(speed, place):
    if speed > {0}.5:
        return [speed * 0.25, -place]
    return place + {0}


"""
MODULE = "".join(FUNCTION.format(number) for number in range(60))


def main() -> None:
    """Print a table."""
    with tempfile.TemporaryDirectory() as directory:
        rounds = [_timed(Path(directory) / str(number), number) for number in range(3)]
    best = {name: min(one[name] for one in rounds) for name in rounds[0]}
    for name, seconds in {**best, "in all": sum(best.values())}.items():
        print(f"{name:16} {1000 * seconds:8.1f} ms")


def _timed(root: Path, number: int) -> dict[str, float]:
    names = [f"{number}-{index}" for index in range(SUBMISSIONS)]
    task = Task(FROM_NOTHING, BudgetRule(SUBMISSIONS), validation_cases=16, held_out_cases=32, train_cases=16)
    events = [opening(task=task)]
    for index, name in enumerate(names):
        events += submitted(index, [index % 16], [float(index)], name)
    validation = {name: [float(index)] * 16 for index, name in enumerate(names)}
    recorded(root, closing(events, validation, [1.0] * 32), {name: _bundle(name) for name in names})
    start = process_time()
    record = read_run(root)
    taken = {"reading": process_time() - start}
    for name in DIAGNOSTICS.names():
        diagnostic = DIAGNOSTICS.load(name)
        start = process_time()
        diagnostic.table(diagnostic.measure(record))
        taken[name] = process_time() - start
    return taken


def _bundle(name: str) -> dict[str, str]:
    """Return five modules of 300 lines, one of which nobody else has."""
    shared = {f"module_{place}.py": MODULE for place in range(FILES - 1)}
    return {**shared, "policy.py": f"NAME = {name!r}\n\n\n{MODULE}"}


if __name__ == "__main__":
    main()
