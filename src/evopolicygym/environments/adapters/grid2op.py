"""Grid2Op, whose environments are not Gymnasium's: here two that its wheel contains, seeded by a reset.

An observation is a dict of grid2op's arrays and of the tables that relate them. An action lists changes; invalid
elements, such as a generator that can't be redispatched, are ignored. The return is the share of the time in which the
grid was kept up.
"""

import warnings
from collections.abc import Callable
from typing import Any

import grid2op
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import register
from lightsim2grid import LightSimBackend

SEEDS = 2**31
BUSES = 3
"""Leave an element where it is, or connect it to one of two busbars."""
TIME = ("month", "day", "hour_of_day", "minute_of_hour", "day_of_week")
TABLES = (
    "line_or_to_subid", "line_ex_to_subid", "line_or_pos_topo_vect", "line_ex_pos_topo_vect", "load_to_subid",
    "load_pos_topo_vect", "gen_to_subid", "gen_pos_topo_vect", "gen_pmin", "gen_pmax", "gen_max_ramp_up",
    "gen_max_ramp_down", "gen_redispatchable", "gen_renewable",
)  # fmt: skip
STORAGE_TABLES = (
    "storage_to_subid", "storage_pos_topo_vect", "storage_Emax", "storage_max_p_prod", "storage_max_p_absorb",
)  # fmt: skip
EXCLUDED = {"year", "current_step", "max_step", "delta_time", *TIME}
EXCLUDED_WORDS = ("alert", "_shunt", "time_since_last_attack")
"""Words in names of attributes that are left out."""


class Grid(gymnasium.Env[Any, Any]):
    """A grid whose load, weather and attacked lines the seed of a reset decides."""

    def __init__(self, name: str, series: tuple[int, ...]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._grid: Any = grid2op.make(name, test=True, backend=LightSimBackend())
        self._series = series
        self._observation: Any = self._grid.reset()
        self._names = [
            attribute
            for attribute in self._observation.attr_list_vect
            if attribute not in EXCLUDED and not any(word in attribute for word in EXCLUDED_WORDS)
        ]
        tables = (*TABLES, *(STORAGE_TABLES if self._grid.n_storage else ()))
        self._tables = {name: getattr(self._grid, name) for name in tables}
        self._tables["thermal_limit"] = self._grid.get_thermal_limit()
        seen = {name: _space_of(value) for name, value in self._arrays().items()}
        self.observation_space = spaces.Dict({**seen, "refused": spaces.Discrete(2)})
        parts: dict[str, spaces.Space[Any]] = {
            "line": spaces.MultiDiscrete([3] * self._grid.n_line),
            "bus": spaces.MultiDiscrete([BUSES] * self._grid.dim_topo),
            "redispatch": spaces.Box(-1.0, 1.0, (self._grid.n_gen,), np.float32),
        }
        if self._grid.n_storage:
            parts["storage"] = spaces.Box(-1.0, 1.0, (self._grid.n_storage,), np.float32)
            parts["curtail"] = spaces.Box(0.0, 1.0, (self._grid.n_gen,), np.float32)
        self.action_space = spaces.Dict(parts)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the days of a seed, or any days without one."""
        super().reset(seed=seed, options=options)
        series = self._series[int(self.np_random.integers(len(self._series)))]
        self._grid.seed(int(self.np_random.integers(SEEDS)))
        self._observation = self._grid.reset(options={"time serie id": series})
        return {**self._arrays(), "refused": 0}, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - as gymnasium's
        """Play five minutes; an action that breaks the rules of the grid is refused as a whole."""
        grid_action = self._without_warnings(lambda: self._grid.action_space(self._action(action)))
        self._observation, _, done, info = self._without_warnings(lambda: self._grid.step(grid_action))
        whole = bool(done and self._grid.nb_time_step >= self._grid.max_episode_duration())
        refused = bool(info["is_illegal"] or info["is_ambiguous"])
        lost = bool(done and not whole)
        reward = 0.0 if lost else 1.0 / self._grid.max_episode_duration()
        return {**self._arrays(), "refused": int(refused)}, reward, bool(done), False, {"kept_up": whole}

    def close(self) -> None:
        """Free the simulator."""
        self._grid.close()

    def _action(self, action: Any) -> dict[str, Any]:  # noqa: ANN401 - a dict of arrays
        """Return an action in grid2op's format."""
        line, bus = np.asarray(action["line"]), np.asarray(action["bus"])
        changes: dict[str, Any] = {}
        if line.any():
            changes["set_line_status"] = np.select([line == 1, line == 2], [-1, 1], 0).astype(np.int32)  # noqa: PLR2004 - as the text says
        if bus.any():
            changes["set_bus"] = bus.astype(np.int32)
        share = np.asarray(action["redispatch"], np.float32)
        ramp = np.where(share > 0, self._grid.gen_max_ramp_up, self._grid.gen_max_ramp_down)
        amounts = np.where(self._grid.gen_redispatchable, share * ramp, 0.0).astype(np.float32)
        if amounts.any():
            changes["redispatch"] = amounts
        if "storage" in action:
            share = np.asarray(action["storage"], np.float32)
            power = np.where(share > 0, self._grid.storage_max_p_absorb, self._grid.storage_max_p_prod)
            if share.any():
                changes["set_storage"] = (share * power).astype(np.float32)
            limit = 1.0 - np.asarray(action["curtail"], np.float32)
            wanted = np.where(self._grid.gen_renewable, limit, 1.0)
            if np.any(wanted != self._observation.curtailment_limit):
                changes["curtail"] = np.where(self._grid.gen_renewable, limit, -1.0).astype(np.float32)
        return changes

    def _arrays(self) -> dict[str, Any]:
        moment = [float(getattr(self._observation, name)) for name in TIME]
        changing = {name: getattr(self._observation, name) for name in self._names}
        return {name: _to_array(value) for name, value in {"time": moment, **changing, **self._tables}.items()}

    def _without_warnings(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - what it returns
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()


def _to_array(value: Any) -> Any:  # noqa: ANN401 - an array
    """Return numbers as a new float32 or int32 array; missing values of a collapsed grid become zeros."""
    array = np.atleast_1d(np.asarray(value))
    kind: Any = np.float32 if array.dtype.kind == "f" else np.int32
    return np.nan_to_num(array, posinf=0.0, neginf=0.0).astype(kind)


def _space_of(value: Any) -> spaces.Box:  # noqa: ANN401 - an array
    if value.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, value.shape, np.float32)
    bounds = np.iinfo(np.int32)
    return spaces.Box(int(bounds.min), int(bounds.max), value.shape, np.int32)


register(
    "grid2op/Attack-v0",
    f"{__name__}:{Grid.__name__}",
    max_episode_steps=864,
    kwargs={"name": "l2rpn_neurips_2020_track1", "series": (0, 1)},
)
register(
    "grid2op/January-v0",
    f"{__name__}:{Grid.__name__}",
    max_episode_steps=575,
    kwargs={"name": "l2rpn_idf_2023", "series": (0,)},
)
