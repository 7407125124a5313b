"""Records an episode while it is played: flat bytes in preallocated rows, one copy per step.

Nothing is encoded in the loop, and no step is held as Python objects but its ``info``. ``records/trajectories.py`` says
what becomes of it on disk.
"""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from evopolicygym.records.trajectories import Trajectory
from evopolicygym.rollout.guest import layout


class Recorder:
    """The rows of one episode."""

    def __init__(
        self, frame: bytearray, offset: int, obs_space: dict[str, Any], action_space: dict[str, Any], max_steps: int
    ) -> None:
        """Read observations from ``frame`` (from ``offset`` on), where they lie anyway to be sent to the policy."""
        self._schemas = obs_space, action_space
        self._frame = np.frombuffer(frame, np.uint8)[offset:]
        # Pages that no step is written to are never taken from the system.
        self._observations = np.empty((max_steps + 1, len(self._frame)), np.uint8)
        self._actions, typed = layout.rows(action_space, max_steps)
        self._keep_action = self._kept_by_bytes(action_space) if typed is None else typed.__setitem__
        self._rewards = np.empty(max_steps, np.float64)
        self._infos: list[dict[str, Any]] = []
        self.clipped: list[int] = []
        """Steps whose action was clipped."""
        self.length = 0
        """Steps played."""

    def start(self) -> None:
        """Keep the observation that the reset gave."""
        self._observations[0] = self._frame

    def add(self, action: Any, reward: float, info: dict[str, Any]) -> None:  # noqa: ANN401 - of any space
        """Keep a step, and the observation after it, which lies in the frame."""
        step = self.length
        self._keep_action(step, action)
        self._rewards[step] = reward
        self._infos.append(info)
        self.length = step = step + 1
        self._observations[step] = self._frame

    def _kept_by_bytes(self, action_space: dict[str, Any]) -> Callable[[int, Any], None]:
        """Return what keeps an action of a composite space: by way of its bytes."""
        action = bytearray(layout.size(action_space, wide=False))
        write, cells, rows = (
            layout.bind(action_space, action, wide=False).write,
            np.frombuffer(action, np.uint8),
            self._actions,
        )

        def keep(step: int, value: Any) -> None:  # noqa: ANN401 - of any space
            write(value)
            rows[step] = cells

        return keep

    @property
    def episode_return(self) -> float:
        """The undiscounted sum of the rewards so far, exactly rounded."""
        return math.fsum(self._rewards[: self.length].tolist())

    def component_sums(self, names: tuple[str, ...]) -> dict[str, float]:
        """Return the sums of the named entries of ``info``; steps that lack one count as 0."""
        return {name: math.fsum(float(info.get(name, 0.0)) for info in self._infos) for name in names}

    def trajectory(self, *, terminated: bool, truncated: bool) -> Trajectory:
        """Return what was kept, as one value."""
        steps = self.length
        return Trajectory(
            observations=layout.columns(self._schemas[0], self._observations[: steps + 1]),
            actions=layout.columns(self._schemas[1], self._actions[:steps]),
            rewards=self._rewards[:steps],
            infos=self._infos,
            clipped=frozenset(self.clipped),
            terminated=terminated,
            truncated=truncated,
        )

    def digest(self, *, terminated: bool, truncated: bool) -> str:
        """Return the SHA-256 that names this trajectory, in hexadecimal."""
        steps, total = self.length, hashlib.sha256(b"evopolicygym trajectory 1")
        for rows in (self._observations[: steps + 1], self._actions[:steps], self._rewards[:steps]):
            total.update(np.ascontiguousarray(rows).data)
        total.update(bytes((terminated, truncated)))
        return total.hexdigest()
