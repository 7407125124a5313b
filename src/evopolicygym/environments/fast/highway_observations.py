"""What highway-env's simulators observe, without a table of pandas for every look.

Each class stands in for the one it derives from: the same numbers, computed by the same operations in the same order.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from highway_env.envs.common import observation as original


def without_tables(observed: Any) -> None:  # noqa: ANN401 - highway-env has no types
    """Make an observation of highway-env one of those below, where there is one."""
    if standing_in := _STAND_INS.get(type(observed)):
        observed.__class__ = standing_in


class KinematicObservation(original.KinematicObservation):  # type: ignore[misc] # highway-env has no types
    """A row for each vehicle near."""

    def observe(self) -> Any:  # noqa: ANN401 - an array of its space
        """Return features by vehicle, the observer's own first; rows of zeros where there are fewer vehicles."""
        if not self.env.road:
            return np.zeros(self.space().shape)
        others = self.env.road.close_objects_to(
            self.observer_vehicle,
            self.env.PERCEPTION_DISTANCE,
            count=self.vehicles_count - 1,
            see_behind=self.see_behind,
            sort=self.order == "sorted",
            vehicles_only=not self.include_obstacles,
        )
        origin = None if self.absolute else self.observer_vehicle
        seen = [self.observer_vehicle.to_dict()]
        seen += [
            other.to_dict(origin, observe_intentions=self.observe_intentions)
            for other in others[-self.vehicles_count + 1 :]
        ]
        columns = {feature: np.array([row.get(feature, np.nan) for row in seen]) for feature in self.features}
        if self.normalize:
            columns = self.normalize_obs(columns)
        observation = np.zeros((max(len(seen), self.vehicles_count), len(self.features)))
        observation[: len(seen)] = np.column_stack([columns[feature] for feature in self.features])
        if self.order == "shuffled":
            self.env.np_random.shuffle(observation[1:])
        return observation.astype(self.space().dtype)


class KinematicsGoalObservation(original.KinematicsGoalObservation):  # type: ignore[misc] # highway-env has no types
    """Where a vehicle is, and where it is to be."""

    def observe(self) -> Any:  # noqa: ANN401 - a dictionary of arrays
        """Return the features of the vehicle, twice, and of its goal, each over its scale."""
        if not self.observer_vehicle:
            return super().observe()
        achieved = _features(self.observer_vehicle.to_dict(), self.features)
        desired = _features(self.observer_vehicle.goal.to_dict(), self.features)
        return original.OrderedDict(
            observation=achieved / self.scales,
            achieved_goal=achieved / self.scales,
            desired_goal=desired / self.scales,
        )


def _features(seen: dict[str, float], features: Sequence[str]) -> Any:  # noqa: ANN401 - an array
    return np.array([seen[feature] for feature in features])


_STAND_INS = {
    original.KinematicObservation: KinematicObservation,
    original.KinematicsGoalObservation: KinematicsGoalObservation,
}
