"""MiniHack, whose worlds are games of NetHack: the seed of a reset decides them as it does NetHack's."""

from typing import Any

import minihack  # noqa: F401 - registers the ids

from evopolicygym.environments.adapters.nle import SeededGame, seed_games


class World(SeededGame):
    """A world that says whether its goal was reached."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:  # noqa: ANN401 - as gymnasium's
        """Play one action; ``success`` in the info is True in the step that reaches the goal."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        game: Any = self.unwrapped
        success = info["end_status"] == game.StepStatus.TASK_SUCCESSFUL
        return observation, reward, terminated, truncated, {**info, "success": success}


seed_games("minihack.", World)
