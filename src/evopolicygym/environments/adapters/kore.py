"""Kore, a game of Kaggle for two: here one player, against an opponent that Kaggle ships, seeded by a reset.

Kaggle's own loop limits the time of its agents. Here the opponent is called as a function, without a time limit.
"""

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import register

with redirect_stdout(StringIO()):  # it prints the games that it can't load
    from kaggle_environments import make
    from kaggle_environments.envs.kore_fleets.kore_fleets import agents

SIZE, STEPS = 21, 400
SEEDS = 2**31 - 1
MAX_ACTION, MAX_COURSES = 2048, 16384
"""Characters of an action, and of all courses together."""
ORDER = re.compile(r"\s*(\d+)\s+(\d+)\s+(SPAWN_\d+|LAUNCH_\d+_[NESWC0-9]+)\s*")
"""Row and column of a shipyard, and its order."""


class Match(gymnasium.Env[Any, str]):
    """A match against one opponent, on a map that the seed of a reset decides."""

    def __init__(self, opponent: str) -> None:
        self._opponent = agents[opponent]
        self._match: Any = None
        self._random_state: tuple[Any, Any] = random.getstate(), np.random.get_state()  # noqa: NPY002 - the game draws from it
        whole = np.iinfo(np.int32)
        board: dict[str, spaces.Space[Any]] = {
            "kore": spaces.Box(0.0, np.inf, (SIZE, SIZE), np.float32),
            "fleet_ships": spaces.Box(int(whole.min), int(whole.max), (SIZE, SIZE), np.int32),
            "fleet_kore": spaces.Box(0.0, np.inf, (SIZE, SIZE), np.float32),
            "fleet_direction": spaces.Box(-1, 3, (SIZE, SIZE), np.int32),
            "shipyard_owner": spaces.Box(-1, 1, (SIZE, SIZE), np.int32),
            "shipyard_ships": spaces.Box(0, int(whole.max), (SIZE, SIZE), np.int32),
            "shipyard_turns": spaces.Box(0, int(whole.max), (SIZE, SIZE), np.int32),
            "stock": spaces.Box(0.0, np.inf, (2,), np.float32),
            "turn": spaces.Discrete(STEPS),
            "courses": spaces.Text(MAX_COURSES, min_length=0),
        }
        self.observation_space = spaces.Dict(board)
        self.action_space = spaces.Text(MAX_ACTION, min_length=0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the match of a seed, or any match without one."""
        super().reset(seed=seed, options=options)
        match_seed = int(self.np_random.integers(1, SEEDS))
        with self._own_random_state():
            self._match = make("kore_fleets", configuration={"randomSeed": match_seed}, debug=False)
            self._match.reset(2)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ANN401 - as gymnasium's
        """Play one turn; lines that are not orders for own shipyards are ignored."""
        with self._own_random_state():
            reply = self._opponent(self._player_view(1), self._match.configuration)
            self._match.step([self._orders(str(action)), reply])
        done = bool(self._match.done)
        won = done and _reward(self._match.state[0]) > _reward(self._match.state[1])
        return self._observation(), float(won), done, False, {"won": won}

    def _orders(self, text: str) -> dict[str, str]:
        own = {found[0]: name for name, found in self._players()[0][1].items()}
        matches = (ORDER.fullmatch(line) for line in text.splitlines())
        orders = ((int(order[1]) * SIZE + int(order[2]), order[3]) for order in matches if order)
        return {own[place]: order for place, order in orders if place in own}

    def _players(self) -> Any:  # noqa: ANN401 - a library without types
        return self._match.state[0].observation.players

    def _player_view(self, player: int) -> Any:  # noqa: ANN401 - a library without types
        seen = self._match.state[player].observation
        shared = self._match.state[0].observation
        return type(seen)(**{**shared, **seen, "player": player})

    def _observation(self) -> dict[str, Any]:
        shared = self._match.state[0].observation
        space: Any = self.observation_space
        board = {name: np.zeros(SIZE * SIZE, part.dtype) for name, part in space.items() if part.shape == (SIZE, SIZE)}
        board["kore"][:] = shared.kore
        board["fleet_direction"][:] = -1
        courses: list[str] = []
        for sign, (_, shipyards, fleets) in zip((1, -1), shared.players, strict=True):
            for place, ships, turns in shipyards.values():
                board["shipyard_owner"][place], board["shipyard_ships"][place] = sign, ships
                board["shipyard_turns"][place] = turns
            for place, cargo, ships, direction, course in fleets.values():
                board["fleet_ships"][place], board["fleet_kore"][place] = sign * ships, cargo
                board["fleet_direction"][place] = direction
                courses += [f"{place // SIZE} {place % SIZE} {course}"] if course else []
        return {
            **{name: array.reshape(SIZE, SIZE) for name, array in board.items()},
            "stock": np.array([player[0] for player in shared.players], np.float32),
            "turn": min(int(shared.step), STEPS - 1),
            "courses": "\n".join(courses)[:MAX_COURSES],
        }

    @contextmanager
    def _own_random_state(self) -> Iterator[None]:
        """Let the game draw from a random state of its own, independent of other code in this process."""
        before = random.getstate(), np.random.get_state()  # noqa: NPY002 - as above
        random.setstate(self._random_state[0])
        np.random.set_state(self._random_state[1])  # noqa: NPY002 - as above
        try:
            yield
        finally:
            self._random_state = random.getstate(), np.random.get_state()  # noqa: NPY002 - as above
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002 - as above


def _reward(state: Any) -> float:  # noqa: ANN401 - a library without types
    return float(state.reward) if state.reward is not None else float("-inf")


register("kore/Balanced-v0", f"{__name__}:{Match.__name__}", max_episode_steps=STEPS, kwargs={"opponent": "balanced"})
