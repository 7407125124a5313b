"""Many runs at once: cores are kept busy, every run has its turn, and the time that is left is told."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, get_ident

import numpy as np
import pytest

from evopolicygym.runs.suites.play import Suite
from evopolicygym.runs.suites.records import PlannedRunResult, PlannedRunVerdict, find_results
from evopolicygym.runs.suites.schedule import SuiteForecast, expected_seconds, start_order
from evopolicygym.runs.suites.suite import PlannedRun, load_suite, plan

FIFTH = 0.2


@dataclass
class VirtualClock:
    """Time that passes when all of so many threads wait for it."""

    threads: int
    now: float = 0.0
    _wakes: dict[int, float] = field(default_factory=dict)
    _changed: Condition = field(default_factory=Condition)

    def wait(self, seconds: float) -> None:
        """Wait until so many seconds have passed."""
        with self._changed:
            until = self._wakes[get_ident()] = self.now + seconds
            self._pass()
            self._changed.wait_for(lambda: self.now >= until)
            del self._wakes[get_ident()]

    def leave(self) -> None:
        """Wait for nothing any more."""
        with self._changed:
            self.threads -= 1
            self._pass()

    def _pass(self) -> None:
        if self._wakes and len(self._wakes) == self.threads and min(self._wakes.values()) > self.now:
            self.now = min(self._wakes.values())
            self._changed.notify_all()


class SimulatedSuite(Suite):
    """A suite whose runs only take time, by a virtual clock."""

    def simulate(self, seconds: dict[int, float], lanes: int, log: Path) -> None:
        """Play all runs, each of which takes so many seconds."""
        self.seconds, self.clock, self.times = seconds, VirtualClock(lanes), dict[int, tuple[float, float]]()
        assert self.play(log, lambda _run, _update: None)

    def _play_waiting(self, cores: tuple[int, ...], output: int) -> None:
        super()._play_waiting(cores, output)
        self.clock.leave()

    def _play(self, before: PlannedRunResult, _output: int) -> PlannedRunResult:
        began = self.clock.now
        self.clock.wait(self.seconds[before.planned.number])
        self.times[before.planned.number] = began, began + self.seconds[before.planned.number]
        return PlannedRunResult(before.planned, PlannedRunVerdict.FINISHED)


def simulated(
    place: Path, lanes: int, seed: int, *, known: bool = False
) -> tuple[tuple[PlannedRun, ...], dict[int, tuple[float, float]]]:
    """Play 64 runs in virtual time; return them, and when each began and ended.

    Agents and environments are slower than is expected, or faster, by factors that nobody knows, and so is each run;
    but where all times are ``known``.
    """
    random = np.random.default_rng(seed)
    agents = [{"name": "codex", "model": "a"}, {"name": "codex", "model": "b"}, {"name": "tuner"}, {"name": "random"}]
    tasks = ["acrobot", "ant", "cartpole", "door_key", "half_cheetah", "parking", "pusher", "reacher"]
    planned = plan(load_suite("smoke", {"runs": str(place), "agents": agents, "environments": tasks, "repeats": 2}))
    of_entry = {run.entry: random.lognormal(0, 1.0) for run in planned}
    of_environment = {run.environment: random.lognormal(0, 0.3) for run in planned}
    factors = {run.number: of_entry[run.entry] * of_environment[run.environment] for run in planned}
    seconds = {
        run.number: expected_seconds(run.config) * factors[run.number] * random.lognormal(0, 0.15) for run in planned
    }
    if known:
        seconds = {run.number: expected_seconds(run.config) for run in planned}
    playing = SimulatedSuite(find_results(planned, place), [(min(os.sched_getaffinity(0)),)] * lanes, ())
    playing.simulate(seconds, lanes, place / "log")
    return planned, playing.times


@pytest.mark.parametrize("lanes", [2, 16])
def test_cores_are_kept_busy(tmp_path: Path, lanes: int) -> None:
    """No core idles while a run waits; all have their turns, and where times are known, all end together."""
    for seed in range(3):
        planned, times = simulated(tmp_path, lanes, seed, known=seed == 0)
        begun = [times[run.number][0] for run in sorted(planned, key=start_order)]
        end, busy = max(last for _, last in times.values()), sum(last - first for first, last in times.values())

        assert begun == sorted(begun)
        assert all(sum(first <= at < last for first, last in times.values()) == lanes for at in begun)
        assert seed or end <= 1.1 * busy / lanes


@pytest.mark.parametrize("lanes", [2, 16])
def test_forecasts(tmp_path: Path, lanes: int) -> None:
    """From a quarter of a suite's time on, its whole time is forecast within a fifth."""
    for seed in range(3):
        planned, times = simulated(tmp_path, lanes, seed)
        end = max(last for _, last in times.values())
        for at in (0.25 * end, 0.5 * end, 0.75 * end):
            forecast = SuiteForecast()
            for run in planned:
                first, last = times[run.number]
                if first <= at:
                    forecast.begin(run, first)
                    forecast.proceed(run, 0.0, first)
                    forecast.proceed(run, min(1.0, (at - first) / (last - first)), min(at, last))
                if last <= at:
                    forecast.end(run, last, finished=True)
            waiting = [run for run in planned if times[run.number][0] > at]

            assert abs(at + forecast.seconds_left(waiting, lanes, at) - end) <= FIFTH * end
