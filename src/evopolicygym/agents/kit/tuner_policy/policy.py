# ruff: noqa: INP001, T201, ANN401 - laid into a workspace; what it prints comes back; values of any space
"""A linear policy over what it sees; its numbers stand in ``parameters.json``, written by the agent ``tuner``.

``parameters.json`` holds ``candidates``, each a flat list of weights. An episode is played by the candidate at its
index, counted round, so that one submission can compare many; without candidates the policy idles. A policy that is
``probing`` plays at random and prints what it sees, so that the tuner learns how the numbers are spread.
"""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.float64]]
PROBE_NUMBERS = 4000
"""About how many numbers a probe prints of an episode: what the judge keeps of its output is limited."""
FARTHEST = 5.0
"""In standard deviations: how far from the centre a feature is taken to be at most."""
PICTURE_NUMBERS, PICTURE_BLOCKS = 256, 4
"""A picture of more numbers is averaged over so many blocks in height and width."""
MOST_NAMED_VALUES = 64


class Policy:
    """Scores = weights times features; the action follows from the scores."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:
        """Read the numbers."""
        self.obs_space, self.action_space = obs_space, action_space
        self.n_scores = count_scores(action_space)
        self.max_steps = env_meta["max_episode_steps"]
        self.parameters = json.loads((Path(__file__).parent / "parameters.json").read_text(encoding="utf-8"))

    def reset(self, episode_index: int) -> None:
        """Choose the candidate that plays this episode."""
        self.step = 0
        self.generator = np.random.default_rng(random.getrandbits(64))
        center, projection = self.parameters["center"], self.parameters["projection"]
        self.center, self.projection = np.array(center), np.reshape(projection, (len(projection), len(center)))
        candidates = self.parameters["candidates"]
        self.weights = None
        if candidates:
            weights = np.array(candidates[episode_index % len(candidates)])
            n_features = len(self.projection) + 1
            self.weights = weights[: self.n_scores * n_features].reshape(self.n_scores, n_features)

    def act(self, obs: object) -> object:
        """Return the action for an observation."""
        return read_action(self.action_space, list(self.scores(obs)))

    def scores(self, obs: object) -> Numbers:
        """Return the numbers that the action is read from."""
        if self.parameters["probing"]:
            self.report(flatten(self.obs_space, obs))
            return 2.0 * self.generator.standard_normal(self.n_scores)
        if self.weights is None:
            return np.zeros(self.n_scores)
        features = self.projection @ (flatten(self.obs_space, obs) - self.center)
        return np.asarray(self.weights @ np.append(np.clip(features, -FARTHEST, FARTHEST), 1.0))

    def report(self, seen: Numbers) -> None:
        """Print how many scores there are, whether their size counts, and what is seen: first often, then rarely."""
        if not self.step:
            print(self.n_scores, int(is_graded(self.action_space)))
        lines = max(1, PROBE_NUMBERS // (2 * max(1, len(seen))))
        if self.step < lines or self.step % -(-self.max_steps // lines) == 0:
            print(*(f"{number:.6g}" for number in seen), flush=True)
        self.step += 1


def flatten(space: dict[str, Any], value: Any) -> Numbers:
    """Return what is seen as one vector: texts left out, pictures averaged over blocks, goals as differences too."""
    match space["type"]:
        case "Dict":
            parts = [flatten(part, value[name]) for name, part in space["spaces"].items()]
            if {"achieved_goal", "desired_goal"} <= set(space["spaces"]):
                parts.append(np.ravel(np.subtract(value["desired_goal"], value["achieved_goal"])))
            return np.concatenate([*parts, np.zeros(0)])
        case "Tuple":
            parts = [flatten(part, item) for part, item in zip(space["spaces"], value, strict=True)]
            return np.concatenate([*parts, np.zeros(0)])
        case "Discrete" if space["n"] <= MOST_NAMED_VALUES:
            return np.asarray(np.arange(space["n"]) == value - space["start"], dtype=np.float64)
        case "Text":
            return np.zeros(0)
        case _:
            return np.ravel(blocks(np.asarray(value, dtype=np.float64)))


def blocks(picture: Numbers) -> Numbers:
    """Return the mean colours of a large picture's blocks; anything else as it is."""
    if picture.ndim != 3 or picture.size <= PICTURE_NUMBERS:  # noqa: PLR2004 - height, width, colours
        return picture
    height, width = (side // PICTURE_BLOCKS for side in picture.shape[:2])
    whole = picture[: height * PICTURE_BLOCKS, : width * PICTURE_BLOCKS]
    means = whole.reshape(PICTURE_BLOCKS, height, PICTURE_BLOCKS, width, -1).mean(axis=(1, 3))
    return np.asarray(means)


def count_scores(space: dict[str, Any]) -> int:
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


def is_graded(space: dict[str, Any]) -> bool:
    """Return whether the size of a score counts in an action, not only which is the largest."""
    parts = space.get("spaces", ())
    return space["type"] == "Box" or any(map(is_graded, parts.values() if isinstance(parts, dict) else parts))


def read_action(space: dict[str, Any], scores: list[float]) -> Any:
    """Return the action that scores stand for, taking its scores from the front: they choose, or are squashed."""
    match space["type"]:
        case "Discrete":
            return choose(take(scores, space["n"] - 1)) + int(space["start"])
        case "MultiDiscrete":
            chosen = [choose(take(scores, n - 1)) for n in space["nvec"]]
            return np.array(chosen) + np.array(space["start"])
        case "MultiBinary":
            return (np.array(take(scores, count_scores(space))) > 0).astype(np.int8).reshape(space["shape"])
        case "Tuple":
            return tuple(read_action(part, scores) for part in space["spaces"])
        case "Dict":
            return {name: read_action(part, scores) for name, part in space["spaces"].items()}
        case "Text":
            return ""
        case _:
            return squash(space, np.array(take(scores, count_scores(space))).reshape(space["shape"]))


def choose(scores: list[float]) -> int:
    """Return which of one more values than scores is meant: that of the largest, or the middle one if none is above 0.

    With a score for every value, only their differences would count, and one in each would be searched for in vain.
    """
    middle = (len(scores) + 1) // 2
    if max(scores, default=0.0) <= 0:
        return middle
    largest = int(np.argmax(scores))
    return largest + (largest >= middle)


def squash(space: dict[str, Any], scores: Numbers) -> Numbers:
    """Return scores bent into a Box: zero is its middle; without bounds on both sides they are clipped instead."""
    low, high = (np.broadcast_to(np.array(space[side], dtype=np.float64), space["shape"]) for side in ("low", "high"))
    bounded = np.isfinite(low) & np.isfinite(high)
    least, most = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    bent = (least + most) / 2 + (most - least) / 2 * np.tanh(scores)
    action = np.where(bounded, bent, np.clip(scores, low, high))
    return np.rint(action) if "int" in space["dtype"] else action


def take(scores: list[float], count: int) -> list[float]:
    """Remove so many scores from the front and return them."""
    taken, scores[:] = scores[:count], scores[count:]
    return taken
