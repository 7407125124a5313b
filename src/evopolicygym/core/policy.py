"""A policy: what its constructor is given."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """What ``env_meta`` says. Hidden evaluation repeats the values of the checkpoint's own submission."""

    env: str
    submit_index: int
    n_episodes_this_submit: int
    remaining_budget_after: int
    max_episode_steps: int
    obs_space: Mapping[str, Any]
    action_space: Mapping[str, Any]
    reward_components: tuple[str, ...] = ()

    def env_meta(self) -> dict[str, Any]:
        """Return the plain dict that a policy is given; ``reward_components`` only where some are declared."""
        meta: dict[str, Any] = {
            "env": self.env,
            "submit_index": self.submit_index,
            "n_episodes_this_submit": self.n_episodes_this_submit,
            "remaining_budget_after": self.remaining_budget_after,
            "max_episode_steps": self.max_episode_steps,
            "obs_space": dict(self.obs_space),
            "action_space": dict(self.action_space),
        }
        return meta | ({"reward_components": list(self.reward_components)} if self.reward_components else {})

    def episode_index(self, position: int) -> int:
        """Return what ``reset`` is given for the ``position``-th episode of any rollout of this checkpoint."""
        return position % self.n_episodes_this_submit
