"""Flatland, where each train is an agent: here one policy dispatches all of them, on a network that a reset seeds."""

import warnings
from typing import Any

import gymnasium
import numpy as np
from flatland.core.env_observation_builder import DummyObservationBuilder
from flatland.envs.line_generators import sparse_line_generator
from flatland.envs.malfunction_generators import MalfunctionParameters, ParamMalfunctionGen
from flatland.envs.rail_env import RailEnv
from flatland.envs.rail_generators import sparse_rail_generator
from flatland.envs.step_utils.states import TrainState
from gymnasium import spaces
from gymnasium.envs.registration import register

SEEDS = 2**31
STEPS = 1000
"""A step limit above that of any timetable of these networks."""
ACTIONS = 5
"""Nothing, left, ahead, right, stop."""
NOWHERE = (-1, -1, -1)
COLUMNS = 12
"""Columns of a train: row, column, direction; target's row and column; initial row, column, direction; state,
malfunction, earliest departure, latest arrival."""


class Dispatcher(gymnasium.Env[Any, Any]):
    """Trains of a railway network that a timetable sends from city to city, while some break down."""

    def __init__(self, trains: int, size: int, cities: int, malfunction_rate: float) -> None:
        self._trains, self._size, self._cities, self._rate = trains, size, cities, malfunction_rate
        self._rail: Any = None
        self._tracks: Any = None
        self._arrived: set[int] = set()
        bounds = np.iinfo(np.int32)
        seen: dict[str, spaces.Space[Any]] = {
            "rails": spaces.MultiBinary((size, size, 16)),
            "trains": spaces.Box(-1, int(bounds.max), (trains, COLUMNS), np.int32),
            "time": spaces.Box(0, int(bounds.max), (2,), np.int32),
        }
        self.observation_space = spaces.Dict(seen)
        self.action_space = spaces.MultiDiscrete([ACTIONS] * trains)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start with the network and the timetable of a seed, or any without one."""
        super().reset(seed=seed, options=options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._rail = RailEnv(
                width=self._size,
                height=self._size,
                rail_generator=sparse_rail_generator(max_num_cities=self._cities),
                line_generator=sparse_line_generator(),
                number_of_agents=self._trains,
                malfunction_generator=ParamMalfunctionGen(MalfunctionParameters(self._rate, 20, 50)),
                obs_builder_object=DummyObservationBuilder(),
            )
            self._rail.reset(random_seed=int(self.np_random.integers(SEEDS)))
        self._arrived = set()
        bits = np.asarray(self._rail.rail.grid, np.uint16)[:, :, None] >> np.arange(15, -1, -1, dtype=np.uint16)
        self._tracks = (bits & 1).astype(np.int8)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - as gymnasium's
        """Give each train an order for one step."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._rail.step(dict(enumerate(map(int, action))))
        now = {train.handle for train in self._rail.agents if train.state == TrainState.DONE}
        reward = len(now - self._arrived) / self._trains
        self._arrived = now
        done = bool(self._rail.dones["__all__"])
        return self._observation(), reward, done, False, {"all_arrived": len(now) == self._trains}

    def _observation(self) -> dict[str, Any]:
        rows = [
            (
                *(_flat(train.current_configuration) if train.current_configuration else NOWHERE),
                *min(train.targets)[0],
                *_flat(train.initial_configuration),
                train.state.value,
                train.malfunction_handler.malfunction_down_counter,
                train.earliest_departure,
                train.latest_arrival,
            )
            for train in self._rail.agents
        ]
        time = (self._rail._elapsed_steps, self._rail._max_episode_steps)  # noqa: SLF001 - it has no other name
        return {"rails": self._tracks.copy(), "trains": np.array(rows, np.int32), "time": np.array(time, np.int32)}


def _flat(configuration: Any) -> tuple[int, int, int]:  # noqa: ANN401 - a library without types
    (row, column), direction = configuration
    return int(row), int(column), int(direction)


register(
    "flatland/Trains-v0",
    f"{__name__}:{Dispatcher.__name__}",
    max_episode_steps=STEPS,
    kwargs={"trains": 100, "size": 35, "cities": 3, "malfunction_rate": 1 / 300},
)
