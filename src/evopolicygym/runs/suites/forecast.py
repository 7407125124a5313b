"""How long a suite's runs are expected to take, in which order they begin, and when the suite will be finished."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from heapq import heapify, heapreplace

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
TOLD = 0.2
"""The part of a run after which its own pace tells more of it than other runs do."""


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


@dataclass(slots=True)
class RunPace:
    """A run that is being played, or was: how much of it in how many seconds."""

    run: PlannedRun
    began: float
    """By the clock of who follows the suite."""
    before: float | None = None
    """The part of it that was played before, as was first heard of it."""
    part: float = 0.0
    seconds: float = 0.0
    ended: bool = False


@dataclass(slots=True)
class SuiteForecast:
    """Follows runs as they are played, and says when the rest will be finished.

    What a run was expected to take is corrected by what runs of its agent, and then of its environment, have taken.
    """

    paces: dict[int, RunPace] = field(default_factory=dict)

    def begin(self, run: PlannedRun, now: float) -> None:
        """Take note that a run's process started."""
        self.paces[run.number] = RunPace(run, now)

    def proceed(self, run: PlannedRun, part: float, now: float) -> None:
        """Take note of the part of a run that is done."""
        pace = self.paces.setdefault(run.number, RunPace(run, now))
        pace.before = part if pace.before is None else pace.before
        pace.part, pace.seconds = part, now - pace.began

    def end(self, run: PlannedRun, now: float, *, finished: bool) -> None:
        """Take note of a run's end."""
        if finished:
            self.proceed(run, 1.0, now)
            pace = self.paces[run.number]
            pace.ended, pace.before = True, 0.0 if pace.before == 1.0 else pace.before
        else:
            self.paces.pop(run.number, None)

    def seconds_left(self, waiting: Iterable[PlannedRun], jobs: int, now: float) -> float:
        """Return in how many seconds all is finished, by so many jobs for what is being played and what waits."""
        of_entry, of_environment = self._corrections()
        ends = [self._rest(pace, of_entry, of_environment, now) for pace in self.paces.values() if not pace.ended]
        ends += [0.0] * (jobs - len(ends))
        heapify(ends)
        for run in sorted(waiting, key=turn):
            heapreplace(ends, ends[0] + _corrected(run, of_entry, of_environment))
        return max(ends, default=0.0)

    def _rest(
        self, pace: RunPace, of_entry: Mapping[str, float], of_environment: Mapping[str, float], now: float
    ) -> float:
        """Return the seconds that a run still takes: more by its own pace, the more of it is done."""
        whole, spent, done = _corrected(pace.run, of_entry, of_environment), now - pace.began, _done(pace)
        if done > 0:
            own = min(1.0, done / TOLD)
            whole = own * pace.seconds / done + (1 - own) * whole
        return max(whole * (1 - (pace.before or 0.0)) - spent, whole * 0.02)

    def _corrections(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return the factors by which runs of each agent, then of each environment, took longer than expected."""
        seen = [pace for pace in self.paces.values() if _done(pace) > 0]
        expected = {pace.run.number: expected_seconds(pace.run.config) * _done(pace) for pace in seen}
        everything = _ratio(((pace.seconds, expected[pace.run.number]) for pace in seen), 1.0, 0.0)
        of_entry: dict[str, float] = {"": everything}
        for entry in {pace.run.entry for pace in seen}:
            pairs = ((pace.seconds, expected[pace.run.number]) for pace in seen if pace.run.entry == entry)
            of_entry[entry] = _ratio(pairs, everything, 0.0)
        of_environment: dict[str, float] = {}
        for name in {pace.run.environment for pace in seen}:
            here = [pace for pace in seen if pace.run.environment == name]
            pairs = ((pace.seconds, expected[pace.run.number] * of_entry[pace.run.entry]) for pace in here)
            of_environment[name] = _ratio(pairs, 1.0, sum(pace.seconds for pace in here) / len(here) / 2)
        return of_entry, of_environment


def _done(pace: RunPace) -> float:
    return pace.part - (pace.before or 0.0)


def _ratio(pairs: Iterable[tuple[float, float]], otherwise: float, weight: float) -> float:
    """Return by which factor seconds exceed what was expected, as if ``weight`` seconds more were as ``otherwise``."""
    seen = list(pairs)
    taken, expected = sum(seconds for seconds, _ in seen), sum(seconds for _, seconds in seen) + weight
    return (taken + weight * otherwise) / expected if expected > 0 else otherwise


def _corrected(run: PlannedRun, of_entry: Mapping[str, float], of_environment: Mapping[str, float]) -> float:
    of_agent = of_entry.get(run.entry, of_entry[""])
    return expected_seconds(run.config) * of_agent * of_environment.get(run.environment, 1.0)
