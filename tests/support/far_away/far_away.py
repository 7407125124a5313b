"""Simulators that only the Python of a test's own pack can import, registered with gymnasium by its import."""

import socket
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

MADE = []
"""Grows with every reset of a simulator that remembers the episode before."""


class Far(gymnasium.Env[Any, Any]):
    """A walk along a line.

    ## Description
    A walker stands on a line and is to go to its end. The line has length = 3, which nobody needs to know.

    ## Action Space
    - 0: stay where it is
    - 1: go on

    ## Observation Space

    | Num | Observation | Min | Max |
    |-----|-------------|-----|-----|
    | 0   | the place   | 0   | 9   |
    | 1   | a number    | 0   | 1   |

    ## Rewards
    The walker is paid for each step towards the end.

    ## Episode End
    The episode ends where the line ends.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012 - as gymnasium has it
    observation_space = spaces.Box(0.0, 9.0, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def render(self) -> Any:
        picture = np.zeros((32, 64, 3), np.uint8)
        picture[:, : 16 * (self.place + 1)] = 255
        return picture

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.place = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += int(action)
        return self._observe(), float(action), self.place == 3, False, {}

    def _observe(self) -> Any:
        return np.array([self.place, self.np_random.random()], np.float32)


class Littering(Far):
    """Leaves a file outside of what is removed with its worker."""

    def reset(self, **named: Any) -> tuple[Any, dict[str, Any]]:
        Path("/", "tmp", "litter.xml").write_text("<walls/>", encoding="utf-8")
        Path(tempfile.gettempdir(), "clean.xml").write_text("<walls/>", encoding="utf-8")
        return super().reset(**named)


class Forgetful(Far):
    """Plays otherwise each time."""

    def _observe(self) -> Any:
        MADE.append(self)
        return np.array([self.place, len(MADE)], np.float32)


class Calling(Far):
    """Asks the network for something."""

    def reset(self, **named: Any) -> tuple[Any, dict[str, Any]]:
        socket.create_connection(("192.0.2.1", 80), timeout=1)
        return super().reset(**named)


class Wide(Far):
    """Observes what its space doesn't have."""

    def _observe(self) -> Any:
        return np.zeros(3, np.float32)


class Blind(Far):
    """Draws nothing."""

    def render(self) -> Any:
        return None


for simulator in (Far, Blind, Littering, Forgetful, Calling, Wide):
    gymnasium.register(f"{simulator.__name__}-v0", simulator, max_episode_steps=20)
