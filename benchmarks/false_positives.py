"""How often ``compare`` finds an agent better than itself: shipped entries of five repeats, split in two.

Every task's five runs are divided into two sides in all ways, one to four repeats a side, and compared as two entries.
Any verdict but "neither" is a false positive. The last row has single runs again, as if an interval over cases alone
decided. Run as ``python benchmarks/false_positives.py``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, groupby

from evopolicygym.analysis.published.score_tables import shipped
from evopolicygym.analysis.ranking.pairing import TaskDifference, pairing
from evopolicygym.analysis.ranking.score_table import score_table
from evopolicygym.records.rows import RunRow

REPEATS = 5


def entries() -> Iterator[tuple[RunRow, ...]]:
    """Yield the repeats of each shipped entry on each task that has five."""
    found = sorted(shipped("baselines").runs, key=lambda run: (run.agent, run.task))
    for _, group in groupby(found, key=lambda run: (run.agent, run.task)):
        runs = tuple(group)
        if len(runs) == REPEATS:
            yield runs


def splits(runs: Sequence[RunRow]) -> Iterator[tuple[tuple[RunRow, ...], tuple[RunRow, ...]]]:
    """Yield all pairs of disjoint sides, each pair once, the smaller side first."""
    places = range(len(runs))
    for first in (side for size in places for side in combinations(places, size)):
        others = [place for place in places if place not in first]
        for second in (side for size in range(len(first), len(others) + 1) for side in combinations(others, size)):
            if first and (len(first) < len(second) or first < second):
                yield tuple(runs[place] for place in first), tuple(runs[place] for place in second)


def compared(one: Sequence[RunRow], other: Sequence[RunRow]) -> TaskDifference:
    """Return the comparison of two sides."""
    runs = [replace(run, agent=label) for label, side in (("one", one), ("other", other)) for run in side]
    return pairing(score_table(runs, ()), "one", "other").tasks[0]


def beyond_cases(task: TaskDifference) -> bool:
    """Return whether the interval, which covers cases alone if no side has repeats, leaves 0 out."""
    return task.interval is not None and not task.interval.low <= 0 <= task.interval.high


def main() -> None:
    """Print, by repeats of each side, how many pairs there are, and how many have a verdict that is false."""
    tasks: dict[str, list[TaskDifference]] = {}
    for runs in entries():
        for one, other in splits(runs):
            sides = f"{len(one)} and {len(other)}" if len(one) > 1 or len(other) == 1 else "1 and more"
            tasks.setdefault(sides, []).append(compared(one, other))
    print("| repeats | pairs | without a verdict | false positives |\n|---|---|---|---|")
    for sides, found in tasks.items():
        said = [task.verdict for task in found]
        print(f"| {sides} | {len(said):,} | {said.count(None):,} | {sum(v in {'first', 'second'} for v in said)} |")
    single = tasks["1 and 1"]
    print(f"| 1 and 1, over cases alone | {len(single)} | 0 | {sum(map(beyond_cases, single))} |")


if __name__ == "__main__":
    main()
