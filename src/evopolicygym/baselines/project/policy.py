"""Plays a network that was trained with Stable-Baselines3: with numpy only, and deterministically.

``network.json`` lists the steps from an observation to an action; ``weights.npz`` has their arrays, those of the i-th
step as ``i.weight`` and ``i.bias``. ``training.json`` describes the training.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.float32]]
OBJECTS, COLOURS, STATES, DIRECTIONS = 11, 6, 3, 4
"""MiniGrid: number of values of the three numbers of a cell, and of the direction."""
VIEW_ROWS = 84
"""CarRacing: rows of the view in the picture; the instruments are below."""
CLIP, EPSILON = 10.0, 1e-8
"""Normalisation: largest absolute value, and the number added to the variance."""


def see(space: dict[str, Any], obs: Any) -> tuple[Numbers, Numbers]:  # noqa: ANN401 - an observation of any space
    """Return the network's input: a picture, (channels, height, width), empty if there is none, and a vector."""
    parts = space.get("spaces", {})
    if "image" in parts:  # MiniGrid: a channel for each value of a cell's three numbers; no mission
        counts = (OBJECTS, COLOURS, STATES)
        cells = [obs["image"][..., index, None] == np.arange(count) for index, count in enumerate(counts)]
        picture = np.concatenate(cells, axis=-1).transpose(2, 0, 1)
        vector = np.arange(DIRECTIONS) == obs["direction"]
    elif "desired_goal" in parts:  # goals: the way that is left
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
    """Return the valid convolution of a picture with filters, (filters, channels, side, side)."""
    windows = np.lib.stride_tricks.sliding_window_view(picture, weight.shape[2:], axis=(1, 2))[:, ::stride, ::stride]
    return np.asarray(np.tensordot(weight, windows, axes=((1, 2, 3), (0, 3, 4))))


class Policy:
    """Takes the network's best action."""

    def __init__(self, obs_space: dict[str, Any], action_space: dict[str, Any], env_meta: dict[str, Any]) -> None:  # noqa: ARG002 - the contract
        """Load the network."""
        self.obs_space, self.action_space = obs_space, action_space
        here = Path(__file__).parent
        self.steps = json.loads((here / "network.json").read_text(encoding="utf-8"))["steps"]
        with np.load(here / "weights.npz") as arrays:
            self.arrays = dict(arrays)

    def reset(self, episode_index: int) -> None:
        """Do nothing: the network has no memory."""

    def act(self, obs: Any) -> Any:  # noqa: ANN401 - of any space
        """Return the action for an observation."""
        scores = self.scores(*see(self.obs_space, obs))
        if self.action_space["type"] == "Discrete":
            return int(np.argmax(scores)) + self.action_space["start"]
        low, high = np.array(self.action_space["low"]), np.array(self.action_space["high"])
        return low + (np.clip(scores, -1, 1) + 1) / 2 * (high - low)

    def scores(self, value: Numbers, vector: Numbers) -> Numbers:
        """Return the output of the last step: a score for each action, or an action between -1 and 1."""
        for index, step in enumerate(self.steps):
            weight: Any = self.arrays.get(f"{index}.weight")  # None for a step without arrays
            bias: Any = self.arrays.get(f"{index}.bias")
            match step["does"]:
                case "normalise":  # by the mean (bias) and variance (weight) of training observations
                    vector = np.clip((vector - bias) / np.sqrt(weight + EPSILON), -CLIP, CLIP).astype(np.float32)
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
