"""Schedule of a suite: expected times of runs, their order, shards for several machines, and the remaining time."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from heapq import heapify, heapreplace
from math import ceil
from pathlib import Path

from evopolicygym.core.errors import UsageError
from evopolicygym.runs.config import RunConfig
from evopolicygym.runs.suites.suite import PlannedRun
from evopolicygym.specs import pack_catalog

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
"""Processor seconds of an episode of random play, sandbox included: the difference between ``evopolicygym anchors
NAME --kind random --workers 1`` with ``--cases 12`` (102 for short episodes) and with ``--cases 2``, per case."""
STEP_S = 2e-4
"""Seconds of a step, policy included, in an environment whose time is unknown."""
OPENING_S = 2.0
"""Seconds from the start of a run's process to its first submission."""
CHECKPOINTS = 0.2
"""Distinct checkpoints in validation for each episode of the budget, as measured with the tuner."""
MODEL_S = 15.0
"""Seconds of model time for each episode of the budget."""
OWN_PACE_SHARE = 0.2
"""The share of a run after which only its own pace is used to estimate its time."""

MAX_SHARDS = 10_000
SHARD_TEXT = re.compile(r"([0-9]{1,5})/([0-9]{1,5})", re.ASCII)
LOCK_FILE = re.compile(r"suite-([0-9]{1,5})-of-([0-9]{1,5})\.lock", re.ASCII)


def start_order(run: PlannedRun) -> tuple[int, float, int]:
    """Return the key that sorts runs in starting order: by repeat, then the longest first."""
    return run.repeat, -expected_seconds(run.config), run.number


def expected_seconds(config: RunConfig) -> float:
    """Return roughly how long a run takes on one core, good enough to compare runs."""
    task, agent = config.task, config.agent
    checkpoints = max(1, CHECKPOINTS * task.budget.episodes)
    episodes = task.budget.episodes + checkpoints * task.validation_cases + task.held_out_cases
    thinking = MODEL_S * task.budget.episodes if agent.model else 0.0
    if agent.allowance.seconds is not None:
        thinking = min(thinking, agent.allowance.seconds)
    episode_s = episode_seconds(task.environment.name)
    return OPENING_S + thinking + episodes * (STEP_S * task.environment.max_steps if episode_s is None else episode_s)


@cache
def episode_seconds(environment: str) -> float | None:
    """Return the processor seconds of an episode of random play; None where they were not measured."""
    if environment in EPISODE_S:
        return EPISODE_S[environment]
    match = pack_catalog.find_listed(environment)
    return match[1].headroom.seconds if match and match[1].headroom else None


@dataclass(slots=True)
class RunPace:
    """The pace of a run that is being or was played."""

    run: PlannedRun
    began: float
    """By the clock of the forecast's user."""
    before: float | None = None
    """The share that was played earlier; None until it is known."""
    part: float = 0.0
    seconds: float = 0.0
    ended: bool = False


@dataclass(slots=True)
class SuiteForecast:
    """Forecasts the remaining time of a suite.

    Expected times of runs are corrected by the times of runs with the same agent, then the same environment.
    """

    paces: dict[int, RunPace] = field(default_factory=dict)

    def begin(self, run: PlannedRun, now: float) -> None:
        """Record that a run's process started."""
        self.paces[run.number] = RunPace(run, now)

    def proceed(self, run: PlannedRun, part: float, now: float) -> None:
        """Record the share of a run that is done."""
        pace = self.paces.setdefault(run.number, RunPace(run, now))
        pace.before = part if pace.before is None else pace.before
        pace.part, pace.seconds = part, now - pace.began

    def end(self, run: PlannedRun, now: float, *, finished: bool) -> None:
        """Record a run's end."""
        if finished:
            self.proceed(run, 1.0, now)
            pace = self.paces[run.number]
            pace.ended, pace.before = True, 0.0 if pace.before == 1.0 else pace.before
        else:
            self.paces.pop(run.number, None)

    def seconds_left(self, waiting: Iterable[PlannedRun], jobs: int, now: float) -> float:
        """Return the seconds until all playing and waiting runs are finished by this many jobs."""
        of_entry, of_environment = self._corrections()
        ends = [self._remaining(pace, of_entry, of_environment, now) for pace in self.paces.values() if not pace.ended]
        ends += [0.0] * (jobs - len(ends))
        heapify(ends)
        for run in sorted(waiting, key=start_order):
            heapreplace(ends, ends[0] + _corrected(run, of_entry, of_environment))
        return max(ends, default=0.0)

    def _remaining(
        self, pace: RunPace, of_entry: Mapping[str, float], of_environment: Mapping[str, float], now: float
    ) -> float:
        """Return a run's remaining seconds; the more of it is done, the more its own pace counts."""
        whole, spent, done = (
            _corrected(pace.run, of_entry, of_environment),
            now - pace.began,
            _played_share(pace),
        )
        if done > 0:
            own = min(1.0, done / OWN_PACE_SHARE)
            whole = own * pace.seconds / done + (1 - own) * whole
        return max(whole * (1 - (pace.before or 0.0)) - spent, whole * 0.02)

    def _corrections(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return the factors by which runs took longer than expected, by agent and then by environment."""
        started = [pace for pace in self.paces.values() if _played_share(pace) > 0]
        expected = {pace.run.number: expected_seconds(pace.run.config) * _played_share(pace) for pace in started}
        everything = _ratio(((pace.seconds, expected[pace.run.number]) for pace in started), 1.0, 0.0)
        of_entry: dict[str, float] = {"": everything}
        for entry in {pace.run.entry for pace in started}:
            pairs = ((pace.seconds, expected[pace.run.number]) for pace in started if pace.run.entry == entry)
            of_entry[entry] = _ratio(pairs, everything, 0.0)
        of_environment: dict[str, float] = {}
        for name in {pace.run.environment for pace in started}:
            here = [pace for pace in started if pace.run.environment == name]
            pairs = ((pace.seconds, expected[pace.run.number] * of_entry[pace.run.entry]) for pace in here)
            of_environment[name] = _ratio(pairs, 1.0, sum(pace.seconds for pace in here) / len(here) / 2)
        return of_entry, of_environment


def _played_share(pace: RunPace) -> float:
    return pace.part - (pace.before or 0.0)


def _ratio(pairs: Iterable[tuple[float, float]], prior: float, weight: float) -> float:
    """Return taken over expected seconds, shrunk towards ``prior`` as if by ``weight`` more seconds."""
    started = list(pairs)
    taken, expected = sum(seconds for seconds, _ in started), sum(seconds for _, seconds in started) + weight
    return (taken + weight * prior) / expected if expected > 0 else prior


def _corrected(run: PlannedRun, of_entry: Mapping[str, float], of_environment: Mapping[str, float]) -> float:
    of_agent = of_entry.get(run.entry, of_entry[""])
    return expected_seconds(run.config) * of_agent * of_environment.get(run.environment, 1.0)


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """A part of a suite for one machine, counted from 1.

    Its runs depend only on the suite and the number of shards, so that machines need not communicate.
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Parse ``I/N``; raise ``UsageError`` for any other text."""
        match = SHARD_TEXT.fullmatch(text)
        number, count = map(int, match.groups()) if match else (0, 0)
        if not 1 <= number <= count <= MAX_SHARDS:
            raise UsageError(
                f"Invalid shard {text!r}: expected I/N with I from 1 to N and N up to {MAX_SHARDS}, such as 1/4."
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
    """Yield the shards that were played in a suite's directory, from their lock files."""
    for file in sorted(directory.glob("suite-*-of-*.lock")):
        if match := LOCK_FILE.fullmatch(file.name):
            yield Shard(*map(int, match.groups()))


def runs_of_shard(planned: Sequence[PlannedRun], shard: Shard) -> tuple[PlannedRun, ...]:
    """Return the runs of a shard in the suite's order."""
    numbers = shard_numbers(planned, shard.count)
    return tuple(run for run, number in zip(planned, numbers, strict=True) if number == shard.number)


def shard_numbers(planned: Sequence[PlannedRun], count: int) -> list[int]:
    """Return the shard of each run, counted from 1.

    Runs are assigned repeat by repeat, the longest first, each to the shard with the least expected time. No shard gets
    more than its share of an agent's runs, because agents may be slower than expected. When repeats are added, earlier
    runs stay in their shards.
    """
    loads, of_entry = [0.0] * count, [Counter[str]() for _ in range(count)]
    dealt, numbers = Counter[str](), [0] * len(planned)
    in_repeat = Counter((run.repeat, run.entry) for run in planned)
    for index in sorted(range(len(planned)), key=lambda index: start_order(planned[index])):
        run = planned[index]
        if (key := (run.repeat, run.entry)) in in_repeat:
            dealt[run.entry] += in_repeat.pop(key)
        most = ceil(dealt[run.entry] / count)
        free = [index for index in range(count) if of_entry[index][run.entry] < most]
        chosen = min(free, key=lambda index: (loads[index], index))
        loads[chosen] += expected_seconds(run.config)
        of_entry[chosen][run.entry] += 1
        numbers[index] = chosen + 1
    return numbers
