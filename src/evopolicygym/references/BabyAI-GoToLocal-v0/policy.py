"""Reads which object is meant, looks around the room until it is seen, and goes up to it by the shortest way.

The mission is always "go to the <colour> <kind>", with "a" where there are several; going to an object means to stand
before it and face it, by BabyAI's source. The room has six by six cells inside of its walls, of which the plan says
nothing but where it may end. Where the object is not in sight, the way is taken on which most unseen cells come into
view for the steps. How the map is kept and what can be seen from where is told in ``gridworld.py``.

It lacks little: now and then it turns to the wrong side first.
"""

from typing import Any

from gridworld import BALL, BOX, COLOURS, KEY, RIGHT, Walker, best_view, poses_of

SIZE = 8
PLAN = ("#" * SIZE, *["#" + "." * (SIZE - 2) + "#"] * (SIZE - 2), "#" * SIZE)
KINDS = {"key": KEY, "ball": BALL, "box": BOX}
SPREAD = 7


class Policy(Walker):
    """Goes to the object that the mission names."""

    plan = PLAN

    def act(self, obs: dict[str, Any]) -> int:
        """Read the mission, then return the next move."""
        *_, colour, kind = obs["mission"].split()
        self.wanted = KINDS[kind], COLOURS.index(colour)
        return super().act(obs)

    def decide(self) -> int:
        """Return the next move towards the object, or to see more of the room."""
        world = self.world
        routes = world.routes(world.effort)
        pose = routes.nearest(poses_of(world.find(*self.wanted)))
        pose = pose or best_view(world, routes, world.unseen(world.openness, SPREAD), 0.05)
        return world.toward(routes, pose) if pose and pose != world.pose else RIGHT
