"""A diagnostic of one's own: what each submission gained over the best one before it.

Start it with ``python examples/05_own_diagnostic.py``. A diagnostic has three functions: ``measure`` reads one run's
record, ``table`` shows one run, and ``summary`` says in short what was found in several. In a file ``gains.py`` this
one would be ``PYTHONPATH=. evopolicygym diagnose RUN --only gains:DIAGNOSTIC`` on the command line.
"""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import evopolicygym
from evopolicygym.analysis.diagnostic import Cell, Diagnostic, Table, mean
from evopolicygym.records.reader import RunRecord


@dataclass(frozen=True, slots=True)
class Gains:
    """One run's gains."""

    gains: tuple[float, ...]
    """Of each submission after the first: its mean return minus the best one before; negative where it was worse."""


def measure(record: RunRecord) -> Gains:
    """Return what each submission gained."""
    means = [fmean(submission.returns) for submission in record.state.submissions if submission.returns]
    return Gains(tuple(means[place] - max(means[:place]) for place in range(1, len(means))))


def table(gains: Gains) -> Table:
    """Return a row for each submission after the first."""
    return Table("gains", ("submission", "gain"), tuple(enumerate(gains.gains, start=1)))


def summary(runs: Sequence[Gains]) -> Mapping[str, Cell]:
    """Return means over runs of the largest gain, and of how many submissions were better than all before."""
    return {
        "largest gain": mean(max(run.gains, default=None) for run in runs),
        "improvements": mean(sum(gain > 0 for gain in run.gains) for run in runs),
    }


DIAGNOSTIC = Diagnostic(measure, table, summary)
"""Found by its name, ``MODULE:DIAGNOSTIC``; here the module is the program itself."""

if __name__ == "__main__":
    runs = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    for agent in ("tuner", "random_search"):
        evopolicygym.run("cartpole", agent, budget=24, validation=2, held_out=2, split="public", runs=runs)
    diagnosis = evopolicygym.diagnose(runs, only=["__main__:DIAGNOSTIC"])
    print(diagnosis.written("markdown"))
    for row in diagnosis.records:  # keys are the names of the summary, with underscores
        print(f"{row['entry']}: {row['improvements']:g} improvements, largest gain {row['largest_gain']:.1f}")
