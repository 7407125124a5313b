"""How often ``compare`` finds an agent better than itself: shipped entries of five repeats, split in two.

Every task's five runs are divided into two sides in all ways, one to four repeats a side, and compared as two entries.
Any verdict but "neither" is a false positive. Run as ``python benchmarks/false_positives.py``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, groupby

from evopolicygym.analysis.published.score_tables import shipped
from evopolicygym.analysis.ranking.pairing import pairing
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


def verdict(one: Sequence[RunRow], other: Sequence[RunRow]) -> str | None:
    """Return what is said of two sides; None where nothing is."""
    runs = [replace(run, agent=label) for label, side in (("one", one), ("other", other)) for run in side]
    return pairing(score_table(runs, ()), "one", "other").tasks[0].verdict


def main() -> None:
    """Print, by repeats of each side, how many pairs there are, and how many have a verdict that is false."""
    counts: dict[tuple[int, int], list[str | None]] = {}
    for runs in entries():
        for one, other in splits(runs):
            counts.setdefault((len(one), len(other)), []).append(verdict(one, other))
    print("repeats  pairs  without a verdict  false positives")
    rows = [
        *counts.items(),
        ("2 or more", [said for sides, all_said in counts.items() if sides[0] > 1 for said in all_said]),
    ]
    for sides, said in rows:
        name = sides if isinstance(sides, str) else f"{sides[0]} and {sides[1]}"
        false = sum(one in {"first", "second"} for one in said)
        print(f"{name:9} {len(said):5}  {said.count(None):17}  {false} ({false / len(said):.1%})")


if __name__ == "__main__":
    main()
