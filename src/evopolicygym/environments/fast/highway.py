"""parking and roundabout, with quicker observations and a quicker search for the lane that a vehicle is on."""

from highway_env.envs.parking_env import ParkingEnv as OriginalParking
from highway_env.envs.roundabout_env import RoundaboutEnv as OriginalRoundabout

from evopolicygym.environments.fast.highway_lanes import MeasuredNetwork
from evopolicygym.environments.fast.highway_observations import without_tables


class ParkingEnv(OriginalParking):  # type: ignore[misc] # highway-env has no types
    """highway-env's, which observes the vehicle four times a step and measures 28 lanes three times."""

    def define_spaces(self) -> None:
        """Set spaces and what observes them."""
        super().define_spaces()
        without_tables(self.observation_type)
        without_tables(self.observation_type_parking)

    def _create_road(self, *size: int) -> None:
        super()._create_road(*size)
        self.road.network = MeasuredNetwork(self.road.network)


class RoundaboutEnv(OriginalRoundabout):  # type: ignore[misc] # highway-env has no types
    """highway-env's, which measures 32 lanes for each vehicle fifteen times a step."""

    def define_spaces(self) -> None:
        """Set spaces and what observes them."""
        super().define_spaces()
        without_tables(self.observation_type)

    def _make_road(self) -> None:
        super()._make_road()
        self.road.network = MeasuredNetwork(self.road.network)
