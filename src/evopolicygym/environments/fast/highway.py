"""parking and roundabout with faster observations and a faster search for a vehicle's lane."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from highway_env.envs.common import observation as original
from highway_env.envs.parking_env import ParkingEnv as OriginalParking
from highway_env.envs.roundabout_env import RoundaboutEnv as OriginalRoundabout
from highway_env.road.lane import CircularLane, SineLane, StraightLane
from highway_env.road.road import RoadNetwork


class ParkingEnv(OriginalParking):  # type: ignore[misc] # highway-env has no types
    """highway-env's environment, which observes the vehicle four times a step and measures 28 lanes three times."""

    def define_spaces(self) -> None:
        """Set spaces and observation types."""
        super().define_spaces()
        replace_observation(self.observation_type)
        replace_observation(self.observation_type_parking)

    def _create_road(self, *size: int) -> None:
        super()._create_road(*size)
        self.road.network = MeasuredNetwork(self.road.network)


class RoundaboutEnv(OriginalRoundabout):  # type: ignore[misc] # highway-env has no types
    """The environment of highway-env, which measures 32 lanes for each vehicle fifteen times a step."""

    def define_spaces(self) -> None:
        """Set spaces and observation types."""
        super().define_spaces()
        replace_observation(self.observation_type)

    def _make_road(self) -> None:
        super()._make_road()
        self.road.network = MeasuredNetwork(self.road.network)


_TOLERANCE = 1e-6
"""In metres; far above rounding errors of distances."""


class MeasuredNetwork(RoadNetwork):  # type: ignore[misc] # highway-env has no types
    """A network of fixed lanes that measures all distances at once."""

    def __init__(self, network: Any) -> None:  # noqa: ANN401 - highway-env has no types
        super().__init__()
        self.graph = network.graph
        self._indices = [
            (start, end, index)
            for start, ends in self.graph.items()
            for end, lanes in ends.items()
            for index in range(len(lanes))
        ]
        self._lanes = [self.get_lane(index) for index in self._indices]
        self._straight, self._circular = _StraightLanes(self._lanes), _CircularLanes(self._lanes)
        self._measurable = len(self._straight.places) + len(self._circular.places) == len(self._lanes)

    def get_closest_lane_index(self, position: Any, heading: float | None = None) -> Any:  # noqa: ANN401 - as in the original
        """Return the index of the lane nearest to a position, m, and a heading, rad: the first of several."""
        if heading is None or not self._measurable:
            return super().get_closest_lane_index(position, heading)
        distances = np.empty(len(self._lanes))
        for group in (self._straight, self._circular):
            distances[group.places] = group.distances(position, heading)
        nearest = np.flatnonzero(distances <= distances.min() + _TOLERANCE)
        if len(nearest) == 1:
            return self._indices[nearest[0]]
        return super().get_closest_lane_index(position, heading)


class _StraightLanes:
    """Straight lanes and sine lanes."""

    def __init__(self, lanes: list[Any]) -> None:
        self.places = [index for index, lane in enumerate(lanes) if type(lane) in {StraightLane, SineLane}]
        chosen = [lanes[index] for index in self.places]
        self._starts = np.array([lane.start for lane in chosen], dtype=float).reshape(-1, 2)
        self._directions = np.array([lane.direction for lane in chosen]).reshape(-1, 2)
        self._laterals = np.array([lane.direction_lateral for lane in chosen]).reshape(-1, 2)
        self._lengths = np.array([lane.length for lane in chosen])
        self._headings = np.array([lane.heading for lane in chosen])
        self._amplitudes, self._pulsations, self._phases = (
            np.array([getattr(lane, name, 0.0) for lane in chosen]) for name in ("amplitude", "pulsation", "phase")
        )

    def distances(self, position: Any, heading: float) -> Any:  # noqa: ANN401 - arrays
        """Return each lane's ``distance_with_heading``."""
        away = position - self._starts
        along, aside = (away * self._directions).sum(axis=1), (away * self._laterals).sum(axis=1)
        wave = self._pulsations * along + self._phases
        headings = self._headings + np.arctan(self._amplitudes * self._pulsations * np.cos(wave))
        return _lane_distance(along, aside - self._amplitudes * np.sin(wave), self._lengths, heading - headings)


class _CircularLanes:
    """Arcs of circles."""

    def __init__(self, lanes: list[Any]) -> None:
        self.places = [index for index, lane in enumerate(lanes) if type(lane) is CircularLane]
        chosen = [lanes[index] for index in self.places]
        self._centers = np.array([lane.center for lane in chosen], dtype=float).reshape(-1, 2)
        self._radii, self._phases, self._directions, self._lengths = (
            np.array([getattr(lane, name) for lane in chosen])
            for name in ("radius", "start_phase", "direction", "length")
        )

    def distances(self, position: Any, heading: float) -> Any:  # noqa: ANN401 - arrays
        """Return each lane's ``distance_with_heading``."""
        away = position - self._centers
        turned = _wrap_angle(np.arctan2(away[:, 1], away[:, 0]) - self._phases)
        aside = self._directions * (self._radii - np.hypot(away[:, 0], away[:, 1]))
        headings = self._phases + turned + np.pi / 2 * self._directions
        return _lane_distance(self._directions * turned * self._radii, aside, self._lengths, heading - headings)


def _lane_distance(along: Any, aside: Any, lengths: Any, turned: Any) -> Any:  # noqa: ANN401 - arrays
    """Return metres aside, metres before a lane's start or past its end, and radians turned away, all added."""
    return np.abs(aside) + np.maximum(along - lengths, 0) + np.maximum(-along, 0) + np.abs(_wrap_angle(turned))


def _wrap_angle(angle: Any) -> Any:  # noqa: ANN401 - an array
    return (angle + np.pi) % (2 * np.pi) - np.pi


def replace_observation(observed: Any) -> None:  # noqa: ANN401 - highway-env has no types
    """Replace the class of an observation type by its faster one, if there is one."""
    if replacement := _REPLACEMENTS.get(type(observed)):
        observed.__class__ = replacement


class KinematicObservation(original.KinematicObservation):  # type: ignore[misc] # highway-env has no types
    """A row for each vehicle near."""

    def observe(self) -> Any:  # noqa: ANN401 - an array of its space
        """Return features by vehicle, the observer's own first; rows of zeros if there are fewer vehicles."""
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
        rows = [self.observer_vehicle.to_dict()]
        rows += [
            other.to_dict(origin, observe_intentions=self.observe_intentions)
            for other in others[-self.vehicles_count + 1 :]
        ]
        columns = {feature: np.array([row.get(feature, np.nan) for row in rows]) for feature in self.features}
        if self.normalize:
            columns = self.normalize_obs(columns)
        observation = np.zeros((max(len(rows), self.vehicles_count), len(self.features)))
        observation[: len(rows)] = np.column_stack([columns[feature] for feature in self.features])
        if self.order == "shuffled":
            self.env.np_random.shuffle(observation[1:])
        return observation.astype(self.space().dtype)


class KinematicsGoalObservation(original.KinematicsGoalObservation):  # type: ignore[misc] # highway-env has no types
    """The state of a vehicle, and its goal."""

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


def _features(values: dict[str, float], features: Sequence[str]) -> Any:  # noqa: ANN401 - an array
    return np.array([values[feature] for feature in features])


_REPLACEMENTS = {
    original.KinematicObservation: KinematicObservation,
    original.KinematicsGoalObservation: KinematicsGoalObservation,
}
