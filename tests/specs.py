"""The specs that ship, as tests of environments ask for them."""

import pytest

from evopolicygym.environments import catalog

CORE16 = {
    *("acrobot", "continuous_car", "bipedal_walker", "car_racing", "reacher", "half_cheetah", "ant", "pusher"),
    *("door_key", "key_corridor", "four_rooms", "obstructed_maze", "parking", "roundabout"),
    *("fetch_push", "fetch_pick_and_place"),
}
MINIGRID = ["door_key", "key_corridor", "four_rooms", "obstructed_maze"]
every = pytest.mark.parametrize("name", catalog.names())
CARTPOLE = catalog.load("cartpole")
