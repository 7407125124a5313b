"""Shards: parts of a suite for as many machines.

Which runs a shard has depends on the suite and the number of shards alone, so machines needn't know of each other.
``gather.py`` brings their runs together.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from evopolicygym.core.errors import UsageError
from evopolicygym.runs.suites.forecast import expected_seconds, turn
from evopolicygym.runs.suites.suite import PlannedRun

MOST_SHARDS = 10_000
TEXT = re.compile(r"([0-9]{1,5})/([0-9]{1,5})", re.ASCII)
LOCK_FILE = re.compile(r"suite-([0-9]{1,5})-of-([0-9]{1,5})\.lock", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """One of as many parts of a suite as there are machines, counted from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Return the shard that ``I/N`` names; raise ``UsageError`` for any other text."""
        found = TEXT.fullmatch(text)
        number, count = map(int, found.groups()) if found else (0, 0)
        if not 1 <= number <= count <= MOST_SHARDS:
            raise UsageError(
                f"Invalid shard {text!r}: expected I/N with I from 1 to N and N up to {MOST_SHARDS}, such as 1/4."
            )
        return cls(number, count)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @property
    def lock_file(self) -> str:
        """The name of the file in the suite's directory that is locked while the shard is played."""
        return f"suite-{self.number}-of-{self.count}.lock"

    @property
    def log_file(self) -> str:
        """The name of the log of its runs' processes, in the suite's directory."""
        return f"suite-{self.number}-of-{self.count}.log"


def shards_of_files(directory: Path) -> Iterator[Shard]:
    """Yield the shards that were played in a suite's directory, as their lock files tell."""
    for file in sorted(directory.glob("suite-*-of-*.lock")):
        if found := LOCK_FILE.fullmatch(file.name):
            yield Shard(*map(int, found.groups()))


def runs_of_shard(planned: Sequence[PlannedRun], shard: Shard) -> tuple[PlannedRun, ...]:
    """Return the runs of a suite that one of its shards plays, in the suite's order."""
    numbers = shard_numbers(planned, shard.count)
    return tuple(run for run, number in zip(planned, numbers, strict=True) if number == shard.number)


def shard_numbers(planned: Sequence[PlannedRun], count: int) -> list[int]:
    """Return which of so many shards plays each run, counted from 1.

    Runs are dealt repeat by repeat, the longest first, each to the shard that has the least to do so far. No shard has
    more than its share of an agent's runs, as agents may be slower than is expected. A suite that grows by repeats
    leaves the runs that it had where they were.
    """
    loads, of_entry = [0.0] * count, [Counter[str]() for _ in range(count)]
    dealt, numbers = Counter[str](), [0] * len(planned)
    in_repeat = Counter((run.repeat, run.entry) for run in planned)
    for place in sorted(range(len(planned)), key=lambda at: turn(planned[at])):
        run = planned[place]
        if (key := (run.repeat, run.entry)) in in_repeat:
            dealt[run.entry] += in_repeat.pop(key)
        most = ceil(dealt[run.entry] / count)
        free = [at for at in range(count) if of_entry[at][run.entry] < most]
        chosen = min(free, key=lambda at: (loads[at], at))
        loads[chosen] += expected_seconds(run.config)
        of_entry[chosen][run.entry] += 1
        numbers[place] = chosen + 1
    return numbers
