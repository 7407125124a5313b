"""A custom diagnostic: the gain of each submission over the best one before it.

Run it with ``python examples/05_own_diagnostic.py``. A diagnostic has three functions: ``measure`` reads one run,
``table`` shows one run, and ``summary`` summarises several. In a file ``gains.py`` this one would be
``PYTHONPATH=. evopolicygym diagnose RUN --only gains:DIAGNOSTIC`` on the command line.
"""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import evopolicygym
from evopolicygym.analysis.diagnostic import Cell, Diagnostic, Table, mean, table_of
from evopolicygym.records.reader import RunRecord


@dataclass(frozen=True, slots=True)
class Gains:
    """The gains of one run."""

    gains: tuple[float, ...]
    """For each submission after the first: its mean return minus the best mean before; negative if worse."""


def measure(record: RunRecord) -> Gains:
    """Return the gain of each submission."""
    means = [fmean(submission.returns) for submission in record.state.submissions if submission.returns]
    return Gains(tuple(means[place] - max(means[:place]) for place in range(1, len(means))))


def table(gains: Gains) -> Table:
    """Return a row for each submission after the first."""
    return table_of("gains", ("submission", "gain"), enumerate(gains.gains, start=1))


def summary(runs: Sequence[Gains]) -> Mapping[str, Cell]:
    """Return the mean over runs of the largest gain, and of the number of improvements."""
    return {
        "largest gain": mean(max(run.gains, default=None) for run in runs),
        "improvements": mean(sum(gain > 0 for gain in run.gains) for run in runs),
    }


DIAGNOSTIC = Diagnostic(measure, table, summary)
"""Selected by its name, ``MODULE:DIAGNOSTIC``; here the module is this script."""

if __name__ == "__main__":
    runs = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    for agent in ("tuner", "random_search"):
        run = evopolicygym.run("cartpole", agent, budget=24, validation=2, held_out=2, split="public", runs=runs)
    print(evopolicygym.diagnose(run.path, only=["__main__:DIAGNOSTIC"]).written("markdown"))  # one run: by submission
    diagnosis = evopolicygym.diagnose(runs, only=["__main__:DIAGNOSTIC"])
    print(diagnosis.written("markdown"))
    for row in diagnosis.records:  # keys are the names of the summary, with underscores
        print(f"{row['entry']}: {row['improvements']:g} improvements, largest gain {row['largest_gain']:.1f}")
