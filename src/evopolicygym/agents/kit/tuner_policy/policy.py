# ruff: noqa: INP001, T201, ANN401 - laid into a workspace; what it prints comes back; values of any space
"""A linear policy over what it sees; its numbers stand in ``parameters.json``, written by the agent ``tuner``.

``parameters.json`` holds ``candidates``, each a flat list of weights. An episode is played by the candidate at its
index, counted round, so that one submission can compare many; without candidates the policy idles. A policy that is
``probing`` plays at random and prints what it sees, so that the tuner learns how the numbers are spread.
"""

import json
import random
from collections.abc import Callable
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.float64]]
Space = dict[str, Any]
PROBE_NUMBERS = 4000
"""About how many numbers a probe prints of an episode: what the judge keeps of its output is limited."""
FARTHEST = 5.0
"""In standard deviations: how far from the centre a feature is taken to be at most."""
PICTURE_NUMBERS, PICTURE_BLOCKS = 256, 4
"""A picture of more numbers is averaged over so many blocks in height and width."""
MOST_NAMED_VALUES = 64


class Policy:
    """Scores = weights times features; the action follows from the scores."""

    def __init__(self, obs_space: Space, action_space: Space, env_meta: dict[str, Any]) -> None:
        """Read the numbers."""
        self.n_scores, self.is_graded = count_scores(action_space), is_graded(action_space)
        self.flatten, self.read_action = flattener(obs_space), action_reader(action_space)
        self.max_steps = env_meta["max_episode_steps"]
        self.scores: Callable[[object], Numbers]
        self.parameters = json.loads((Path(__file__).parent / "parameters.json").read_text(encoding="utf-8"))

    def reset(self, episode_index: int) -> None:
        """Choose the candidate that plays this episode."""
        center, projection = self.parameters["center"], self.parameters["projection"]
        self.center, self.projection = np.array(center), np.reshape(projection, (len(projection), len(center)))
        candidates, n_features = self.parameters["candidates"], len(self.projection) + 1
        if self.parameters["probing"]:
            self.step = 0
            self.generator = np.random.default_rng(random.getrandbits(64))
            self.scores = self.probe
        elif candidates:
            weights = np.array(candidates[episode_index % len(candidates)])
            self.weights = weights[: self.n_scores * n_features].reshape(self.n_scores, n_features)
            self.inputs = np.ones(n_features)
            self.features = self.inputs[:-1]
            self.scores = self.weigh
        else:
            self.scores = lambda _: np.zeros(self.n_scores)

    def act(self, obs: object) -> object:
        """Return the action for an observation."""
        return self.read_action(self.scores(obs).tolist())

    def weigh(self, obs: object) -> Numbers:
        """Return the scores of an observation: its features, clipped, and a one, times the weights."""
        features = self.projection @ (self.flatten(obs) - self.center)
        np.minimum(np.maximum(features, -FARTHEST), FARTHEST, out=self.features)
        return np.asarray(self.weights @ self.inputs)

    def probe(self, obs: object) -> Numbers:
        """Print what is seen and return random scores."""
        self.report(self.flatten(obs))
        return 2.0 * self.generator.standard_normal(self.n_scores)

    def report(self, seen: Numbers) -> None:
        """Print how many scores there are, whether their size counts, and what is seen: first often, then rarely."""
        if not self.step:
            print(self.n_scores, int(self.is_graded))
        lines = max(1, PROBE_NUMBERS // (2 * max(1, len(seen))))
        if self.step < lines or self.step % -(-self.max_steps // lines) == 0:
            print(*(f"{number:.6g}" for number in seen), flush=True)
        self.step += 1


def flattener(space: Space) -> Callable[[Any], Numbers]:
    """Return what makes one vector of what is seen: texts left out, pictures averaged, goals as differences too."""
    match space["type"]:
        case "Dict":
            named = [(name, flattener(part)) for name, part in space["spaces"].items()]
            has_goals = {"achieved_goal", "desired_goal"} <= set(space["spaces"])

            def flatten(value: Any) -> Numbers:
                parts = [read(value[name]) for name, read in named]
                if has_goals:
                    parts.append(np.ravel(np.subtract(value["desired_goal"], value["achieved_goal"])))
                return np.concatenate([*parts, np.zeros(0)])

            return flatten
        case "Tuple":
            readers = [flattener(part) for part in space["spaces"]]
            return lambda value: np.concatenate(
                [*(read(item) for read, item in zip(readers, value, strict=True)), np.zeros(0)]
            )
        case "Discrete" if space["n"] <= MOST_NAMED_VALUES:
            values, start = np.arange(space["n"]), space["start"]
            return lambda value: np.asarray(values == value - start, dtype=np.float64)
        case "Text":
            return lambda _: np.zeros(0)
        case _:
            return lambda value: np.ravel(blocks(np.asarray(value, dtype=np.float64)))


def blocks(picture: Numbers) -> Numbers:
    """Return the mean colours of a large picture's blocks; anything else as it is."""
    if picture.ndim != 3 or picture.size <= PICTURE_NUMBERS:  # noqa: PLR2004 - height, width, colours
        return picture
    height, width = (side // PICTURE_BLOCKS for side in picture.shape[:2])
    whole = picture[: height * PICTURE_BLOCKS, : width * PICTURE_BLOCKS]
    means = whole.reshape(PICTURE_BLOCKS, height, PICTURE_BLOCKS, width, -1).mean(axis=(1, 3))
    return np.asarray(means)


def count_scores(space: Space) -> int:
    """Return how many scores an action takes."""
    match space["type"]:
        case "Discrete":
            return int(space["n"]) - 1
        case "MultiDiscrete":
            return int(np.sum(np.array(space["nvec"]) - 1))
        case "Tuple":
            return sum(count_scores(part) for part in space["spaces"])
        case "Dict":
            return sum(count_scores(part) for part in space["spaces"].values())
        case "Text":
            return 0
        case _:
            return int(np.prod(space["shape"]))


def is_graded(space: Space) -> bool:
    """Return whether the size of a score counts in an action, not only which is the largest."""
    parts = space.get("spaces", ())
    return space["type"] == "Box" or any(map(is_graded, parts.values() if isinstance(parts, dict) else parts))


def action_reader(space: Space) -> Callable[[list[float]], Any]:
    """Return what makes an action of scores, which it takes from the front: they choose, or are squashed."""
    match space["type"]:
        case "Discrete":
            count, start = space["n"] - 1, int(space["start"])
            return lambda scores: choose(take(scores, count)) + start
        case "MultiDiscrete":
            counts, starts = [n - 1 for n in space["nvec"]], np.array(space["start"])
            return lambda scores: np.array([choose(take(scores, count)) for count in counts]) + starts
        case "MultiBinary":
            count, shape = count_scores(space), space["shape"]
            return lambda scores: (np.array(take(scores, count)) > 0).astype(np.int8).reshape(shape)
        case "Tuple":
            readers = [action_reader(part) for part in space["spaces"]]
            return lambda scores: tuple(read(scores) for read in readers)
        case "Dict":
            named = [(name, action_reader(part)) for name, part in space["spaces"].items()]
            return lambda scores: {name: read(scores) for name, read in named}
        case "Text":
            return lambda _: ""
        case _:
            count, shape, bend = count_scores(space), space["shape"], squasher(space)
            return lambda scores: bend(np.array(take(scores, count)).reshape(shape))


def choose(scores: list[float]) -> int:
    """Return which of one more values than scores is meant: that of the largest, or the middle one if none is above 0.

    With a score for every value, only their differences would count, and one in each would be searched for in vain.
    """
    middle, most = (len(scores) + 1) // 2, max(scores, default=0.0)
    if most <= 0:
        return middle
    largest = int(np.argmax(scores)) if isnan(sum(scores)) else scores.index(most)  # the first that isn't a number
    return largest + (largest >= middle)


def squasher(space: Space) -> Callable[[Numbers], Numbers]:
    """Return what bends scores into a Box: zero is its middle; without bounds on both sides it clips them."""
    low, high = (np.broadcast_to(np.array(space[side], dtype=np.float64), space["shape"]) for side in ("low", "high"))
    bounded = np.isfinite(low) & np.isfinite(high)
    least, most = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    middle, half, all_bounded = (least + most) / 2, (most - least) / 2, bool(bounded.all())

    def bend(scores: Numbers) -> Numbers:
        bent = middle + half * np.tanh(scores)
        return bent if all_bounded else np.where(bounded, bent, np.clip(scores, low, high))

    return (lambda scores: np.rint(bend(scores))) if "int" in space["dtype"] else bend


def take(scores: list[float], count: int) -> list[float]:
    """Remove so many scores from the front and return them."""
    taken, scores[:] = scores[:count], scores[count:]
    return taken
