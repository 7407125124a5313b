"""The export of a training as a policy project that needs only numpy: ``policy.py``, ``network.json``, ``weights.npz``.

``training.json`` describes the training; the policy doesn't read it.
"""

import json
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from evopolicygym.baselines.settings import Algorithm
from evopolicygym.baselines.training import Training
from evopolicygym.core.errors import UsageError
from evopolicygym.environments.versions import versions

POLICY, NETWORK, WEIGHTS, TRAINING = "policy.py", "network.json", "weights.npz", "training.json"
REPORTED_EPISODES = 20
"""Number of first and of last episodes whose mean return is reported."""


def refuse_occupied(directory: Path) -> None:
    """Raise ``UsageError`` unless a directory is new or empty."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"Invalid output {directory}: expected a new or empty directory.")


def export(training: Training, directory: Path) -> dict[str, Any]:
    """Write a training's policy into a new or empty directory; return the content of ``training.json``."""
    refuse_occupied(directory)
    directory.mkdir(parents=True, exist_ok=True)
    steps, arrays = network_of(training)
    source = files("evopolicygym.baselines.project").joinpath(POLICY)
    (directory / POLICY).write_bytes(source.read_bytes())
    (directory / NETWORK).write_text(json.dumps({"steps": steps}, indent=1) + "\n", encoding="utf-8")
    np.savez(directory / WEIGHTS, **arrays)
    document = document_of(training)
    (directory / TRAINING).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return document


def network_of(training: Training) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the steps from an observation to the action's numbers, and the steps' arrays by name."""
    steps: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}

    def add(does: str, weight: Any = None, bias: Any = None, **more: float) -> None:  # noqa: ANN401 - arrays
        if weight is not None:
            arrays[f"{len(steps)}.weight"], arrays[f"{len(steps)}.bias"] = weight, bias
        steps.append({"does": does, **more})

    if training.normaliser.norm_obs:
        statistics = training.normaliser.obs_rms
        add("normalise", statistics.var, statistics.mean)
    before, after = _modules(training)
    for module in before:
        _add_module(add, module)
    add("flatten")
    for module in after:
        _add_module(add, module)
    if training.algorithm is Algorithm.SAC:
        add("tanh")
    return steps, arrays


def document_of(training: Training) -> dict[str, Any]:
    """Return the content of ``training.json``."""
    returns = list(training.progress.returns)
    return {
        "label": f"{training.algorithm.upper()} {training.budget}",
        "environment": training.spec.name,
        "algorithm": training.algorithm,
        "budget": {training.budget.unit: training.budget.amount},
        "seed": training.seed,
        "cases": "train cases of the public split, in order",
        "episodes": training.episodes,
        "steps": training.progress.steps,
        "updates": training.updates,
        "processor_seconds": round(training.progress.seconds),
        "mean_return_of_first_episodes": _mean(returns[:REPORTED_EPISODES]),
        "mean_return_of_last_episodes": _mean(returns[-REPORTED_EPISODES:]),
        "settings": dict(training.settings),
        "versions": {
            **versions(training.spec),
            **{package: version(package) for package in ("stable_baselines3", "torch")},
        },
    }


def _modules(training: Training) -> tuple[list[Any], list[Any]]:
    """Return the torch modules of the deterministic policy: those for a picture, and those after it."""
    policy = training.model.policy
    if training.algorithm is Algorithm.SAC:
        extractor, after = policy.actor.features_extractor, [policy.actor.latent_pi, policy.actor.mu]
    else:
        extractor, after = policy.pi_features_extractor, [policy.mlp_extractor.policy_net, policy.action_net]
    return _leaves([getattr(extractor, "convolutions", None)]), _leaves(after)


def _leaves(modules: list[Any]) -> list[Any]:
    return [leaf for module in modules if module is not None for leaf in module.modules() if not list(leaf.children())]


def _add_module(add: Any, module: Any) -> None:  # noqa: ANN401 - of torch
    match type(module).__name__:
        case "Conv2d":
            add("convolve", _array(module.weight), _array(module.bias), stride=module.stride[0])
        case "Linear":
            add("multiply", _array(module.weight), _array(module.bias))
        case "ReLU":
            add("relu")
        case "Tanh":
            add("tanh")
        case "Hardtanh":  # around the mean action with state-dependent exploration (gSDE)
            add("limit", to=module.max_val)
        case name:
            raise NotImplementedError(f"a {name} in a policy's network has no counterpart in {POLICY}")


def _array(tensor: Any) -> Any:  # noqa: ANN401 - torch to numpy
    return tensor.detach().numpy().astype(np.float32)


def _mean(returns: list[float]) -> float | None:
    return round(float(np.mean(returns)), 4) if returns else None
