"""Plays a network that was trained by Stable-Baselines3, with numpy alone and without drawing at random.

``network.json`` lists what is done with an observation, step by step; ``weights.npz`` holds the numbers, those of the
i-th step as ``i.weight`` and ``i.bias``. What was trained, and how, stands in ``training.json``.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.float32]]
OBJECTS, COLOURS, STATES, DIRECTIONS = 11, 6, 3, 4
"""Of MiniGrid: how many values the three numbers of a cell can have, and the direction."""
VIEW_ROWS = 84
"""Of CarRacing's picture: rows of the view; the instruments are below."""
FARTHEST, LEAST = 10.0, 1e-8
"""Of normalised numbers: how far from the mean they may be, and what is added to the variance."""


def see(space: dict[str, Any], obs: Any) -> tuple[Numbers, Numbers]:  # noqa: ANN401 - an observation of any space
    """Return what the network is shown: a picture, (channels, height, width), empty where there is none; a vector."""
    parts = space.get("spaces", {})
    if "image" in parts:  # MiniGrid: a channel for each value of a cell's three numbers; no mission
        counts = (OBJECTS, COLOURS, STATES)
        cells = [obs["image"][..., place, None] == np.arange(count) for place, count in enumerate(counts)]
        picture = np.concatenate(cells, axis=-1).transpose(2, 0, 1)
        vector = np.arange(DIRECTIONS) == obs["direction"]
    elif "desired_goal" in parts:  # goals: how far it is to go
        picture = np.zeros((0, 0, 0))
        vector = np.concatenate([obs["observation"], obs["desired_goal"] - obs["achieved_goal"]])
    elif len(space["shape"]) == len(("height", "width", "colours")):  # CarRacing: green of 2 by 2 pixels; instruments
        view = obs[:VIEW_ROWS, :, 1] / 255
        picture = (view[::2, ::2] + view[1::2, ::2] + view[::2, 1::2] + view[1::2, 1::2])[None] / 4
        vector = obs[VIEW_ROWS:].mean(axis=(0, 2)) / 255
    else:
        picture, vector = np.zeros((0, 0, 0)), np.ravel(obs)
    return picture.astype(np.float32), vector.astype(np.float32)


def convolve(picture: Numbers, weight: Numbers, stride: int) -> Numbers:
    """Return the channels that filters, (filters, channels, side, side), make of a picture, without a border."""
    windows = np.lib.stride_tricks.sliding_window_view(picture, weight.shape[2:], axis=(1, 2))[:, ::stride, ::stride]
    return np.asarray(np.tensordot(weight, windows, axes=((1, 2, 3), (0, 3, 4))))


class Policy:
    """Does what the network finds best."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:  # noqa: ARG002 - the contract
        """Read the network."""
        self.obs_space, self.action_space = obs_space, action_space
        here = Path(__file__).parent
        self.steps = json.loads((here / "network.json").read_text(encoding="utf-8"))["steps"]
        with np.load(here / "weights.npz") as arrays:
            self.arrays = dict(arrays)

    def reset(self, episode_index: int) -> None:
        """Do nothing: the network remembers nothing."""

    def act(self, obs: Any) -> Any:  # noqa: ANN401 - of any space
        """Return the action for an observation."""
        scores = self.scores(*see(self.obs_space, obs))
        if self.action_space["type"] == "Discrete":
            return int(np.argmax(scores)) + self.action_space["start"]
        low, high = np.array(self.action_space["low"]), np.array(self.action_space["high"])
        return low + (np.clip(scores, -1, 1) + 1) / 2 * (high - low)

    def scores(self, value: Numbers, vector: Numbers) -> Numbers:
        """Return the last step's numbers: a score for each action, or an action between -1 and 1."""
        for place, step in enumerate(self.steps):
            weight: Any = self.arrays.get(f"{place}.weight")  # none where a step has no numbers
            bias: Any = self.arrays.get(f"{place}.bias")
            match step["does"]:
                case "normalise":  # by the mean (bias) and variance (weight) of what was seen in training
                    vector = np.clip((vector - bias) / np.sqrt(weight + LEAST), -FARTHEST, FARTHEST).astype(np.float32)
                case "convolve":
                    value = convolve(value, weight, step["stride"]) + bias[:, None, None]
                case "flatten":
                    value = np.append(value.ravel(), vector)
                case "multiply":
                    value = weight @ value + bias
                case "relu":
                    value = np.maximum(value, 0)
                case "tanh":
                    value = np.tanh(value)
                case "limit":
                    value = np.clip(value, -step["to"], step["to"])
        return value
