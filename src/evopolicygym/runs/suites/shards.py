"""Shards: parts of a suite for as many machines, and how long a run is expected to take.

Which runs a shard has depends on the suite and the number of shards alone, so machines needn't know of each other.
``gather.py`` brings their runs together.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path

from evopolicygym.core.errors import UsageError
from evopolicygym.runs.config import RunConfig
from evopolicygym.runs.suites.suite import PlannedRun
from evopolicygym.specs import pack_catalog

MOST_SHARDS = 10_000
TEXT = re.compile(r"([0-9]{1,5})/([0-9]{1,5})", re.ASCII)
LOCK_FILE = re.compile(r"suite-([0-9]{1,5})-of-([0-9]{1,5})\.lock", re.ASCII)
EPISODE_S = {
    "acrobot": 0.035,
    "ant": 0.066,
    "bipedal_walker": 0.135,
    "car_racing": 4.218,
    "cartpole": 0.005,
    "continuous_car": 0.023,
    "door_key": 0.067,
    "fetch_pick_and_place": 0.128,
    "fetch_push": 0.103,
    "four_rooms": 0.005,
    "half_cheetah": 0.108,
    "key_corridor": 0.029,
    "obstructed_maze": 0.034,
    "parking": 0.058,
    "pendulum": 0.019,
    "pusher": 0.009,
    "reacher": 0.014,
    "roundabout": 0.088,
}
"""Processor seconds of an episode of random play, sandbox included: what ``evopolicygym anchors NAME --kind random
--workers 1`` takes longer with ``--cases 12``, or 102 where episodes are short, than with ``--cases 2``, by case."""
STEP_S = 2e-4
"""Of a step of an environment that is not known here, its policy's part included."""
OPENING_S = 2.0
"""Of a run's process, until its first submission can be played."""
CHECKPOINTS = 0.2
"""Distinct checkpoints that validation plays for each episode of the budget: a fifth of them for the tuner."""
MODEL_S = 15.0
"""Seconds that an agent with a model thinks for each episode of the budget."""


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


def turn(run: PlannedRun) -> tuple[int, float, int]:
    """Return a key that sorts runs in the order in which they begin: by repeat, then the longest first."""
    return run.repeat, -expected_seconds(run.config), run.number


def expected_seconds(config: RunConfig) -> float:
    """Return about how long a run takes on one core; good enough to compare runs, not to promise anything."""
    task, agent = config.task, config.agent
    checkpoints = max(1, CHECKPOINTS * task.budget.episodes)
    episodes = task.budget.episodes + checkpoints * task.validation_cases + task.held_out_cases
    thinking = MODEL_S * task.budget.episodes if agent.model else 0.0
    if agent.allowance.seconds is not None:
        thinking = min(thinking, agent.allowance.seconds)
    return OPENING_S + thinking + episodes * _episode_seconds(task.environment.name, task.environment.max_steps)


@cache
def _episode_seconds(environment: str, max_steps: int) -> float:
    if environment in EPISODE_S:
        return EPISODE_S[environment]
    found = pack_catalog.find_listed(environment)
    return found[1].headroom.seconds if found and found[1].headroom else max_steps * STEP_S
