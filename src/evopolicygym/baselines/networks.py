"""Networks and learners, built by Stable-Baselines3 from settings."""

from collections.abc import Mapping
from typing import Any

import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecNormalize

from evopolicygym.baselines.settings import OURS, Algorithm
from evopolicygym.baselines.train_environment import PICTURE, VECTOR

ACTIVATIONS = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}


class PictureFeatures(BaseFeaturesExtractor):  # type: ignore[misc] # an untyped package
    """Convolutions over a picture, flattened and concatenated with the vector."""

    def __init__(self, observation_space: Any, filters: list[list[int]]) -> None:  # noqa: ANN401 - a gymnasium Dict
        picture = observation_space[PICTURE].shape
        layers, channels = [], picture[0]
        for count, side, stride in filters:
            layers += [torch.nn.Conv2d(channels, count, side, stride), torch.nn.ReLU()]
            channels = count
        convolutions = torch.nn.Sequential(*layers)
        with torch.no_grad():
            size = convolutions(torch.zeros(1, *picture)).numel()
        super().__init__(observation_space, size + observation_space[VECTOR].shape[0])
        self.convolutions = convolutions

    def forward(self, observations: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a tensor
        """Return features, (batch, features), of observations by name."""
        picture = self.convolutions(observations[PICTURE])
        return torch.cat([torch.flatten(picture, 1), observations[VECTOR]], dim=1)


def learner(
    algorithm: Algorithm,
    settings: Mapping[str, Any],
    environments: Any,  # noqa: ANN401 - a VecEnv
    seed: int,
) -> tuple[Any, Any]:
    """Return an algorithm of Stable-Baselines3 on environments, for one core, and the VecNormalize between them."""
    torch.set_num_threads(1)
    is_picture = hasattr(environments.observation_space, "spaces")
    normaliser = VecNormalize(
        environments,
        norm_obs=settings["normalise_observations"] and not is_picture,
        norm_reward=settings["normalise_rewards"],
        gamma=settings["gamma"],
    )
    model = {Algorithm.PPO: PPO, Algorithm.SAC: SAC}[algorithm](
        "MultiInputPolicy" if is_picture else "MlpPolicy",
        normaliser,
        **{name: value for name, value in settings.items() if name not in OURS | {"policy_kwargs"}},
        policy_kwargs=policy_arguments(algorithm, settings),
        seed=seed,
        device="cpu",
    )
    return model, normaliser


def policy_arguments(algorithm: Algorithm, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``policy_kwargs`` of Stable-Baselines3 for settings."""
    value = "qf" if algorithm is Algorithm.SAC else "vf"
    arguments: dict[str, Any] = {
        "net_arch": {"pi": settings["policy_layers"], value: settings["value_layers"]},
        "activation_fn": ACTIVATIONS[settings["activation"]],
        **settings.get("policy_kwargs", {}),
    }
    if settings["filters"]:
        arguments["features_extractor_class"] = PictureFeatures
        arguments["features_extractor_kwargs"] = {"filters": settings["filters"]}
        arguments["normalize_images"] = False
    return arguments
