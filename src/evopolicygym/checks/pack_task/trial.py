"""A task is tried: two resets that must repeat bit for bit, random and idle episodes, observations within their space.

Run as a program on the Python that plays it, it reads ``{"spec": …, "path": …}`` from standard input, the texts of the
spec left out, and prints a JSON object. What may be reached while it runs is decided in ``checks/pack.py``.
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evopolicygym.checks.environment_contract.trace import trace
from evopolicygym.checks.pack_task.processor_time import children_seconds
from evopolicygym.core.pack import PackText
from evopolicygym.core.spaces import from_schema, sample
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.derived import completed, meanings
from evopolicygym.environments.description import described
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.spaces import mismatch

SEED = 20260702
STEPS = 200
"""How far a comparison goes."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long episodes are played, in seconds of processor time."""

    first: float
    """The first one is cut there."""
    others: float
    """No further one begins, nor goes on, when all together have taken so long."""
    episodes: int


AT_RANDOM, IDLING = Patience(8.0, 1.5, 8), Patience(0.5, 0.5, 1)


@dataclass(slots=True)
class PlayedEpisodes:
    """What some episodes of one policy came to."""

    returns: list[float] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    """Processor time of the environment's steps."""
    mismatch: str = ""
    odd_reward: bool = False


def tried(bare: EnvironmentSpec) -> dict[str, Any]:
    """Return what came of a task, as JSON has it."""
    said = described(bare)
    whole = completed(bare, said, PackText())
    spec = replace(bare, max_steps=whole.max_steps, idle_action=whole.idle_action)
    digests = [trace(spec, SEED, STEPS) for _ in range(2)]
    at_random = _played(spec, AT_RANDOM, _random_actions)
    idling = _played(spec, IDLING, _idle_actions) if spec.idle_action is not None else PlayedEpisodes()
    return {
        "repeats": digests[0] == digests[1],
        "steps_per_second": round(at_random.steps / at_random.seconds) if at_random.seconds else None,
        "random_mean": float(np.mean(at_random.returns)) if at_random.returns else None,
        "random_episodes": len(at_random.returns),
        "idle_mean": float(np.mean(idling.returns)) if idling.returns else None,
        "max_steps": spec.max_steps,
        "observation": _in_words(said.observation_schema),
        "action": _in_words(said.action_schema),
        "mismatch": at_random.mismatch or idling.mismatch,
        "odd_reward": at_random.odd_reward or idling.odd_reward,
    }


def _in_words(schema: Any) -> str:  # noqa: ANN401 - JSON
    return meanings(from_schema(schema), ())[0].removesuffix(".")


def _random_actions(environment: Environment, seed: int) -> Iterator[Any]:
    random, space = np.random.default_rng((SEED, seed)), environment.action_space
    while True:
        yield sample(space, random)


def _idle_actions(environment: Environment, _: int) -> Iterator[Any]:
    idle = environment.idle_action
    while True:
        yield idle


def _played(
    spec: EnvironmentSpec, patience: Patience, policy: Callable[[Environment, int], Iterator[Any]]
) -> PlayedEpisodes:
    """Play whole episodes, as many as there is time for; of the last, which time may cut, only the steps count."""
    played, begun = PlayedEpisodes(), time.process_time()
    for seed in range(patience.episodes):
        until = begun + (patience.others if seed else patience.first)
        environment = Environment(spec)
        try:
            observation = environment.reset(seed)
            ended = _episode(environment, observation, policy(environment, seed), played, until)
        finally:
            environment.close()
        if not ended:
            break
    return played


def _episode(
    environment: Environment, observation: object, actions: Iterator[Any], played: PlayedEpisodes, until: float
) -> bool:
    """Play an episode to its end, or as long as there is time; return whether it ended."""
    space, episode_return, ended = environment.observation_space, 0.0, False
    played.mismatch = played.mismatch or mismatch(space, observation)
    apart, now = children_seconds(), time.process_time()
    while not ended and now < until:
        action, since = next(actions), time.process_time()
        observation, reward, terminated, truncated, _ = environment.step(action)
        now = time.process_time()
        played.seconds += now - since
        played.steps, episode_return, ended = played.steps + 1, episode_return + reward, terminated or truncated
        played.odd_reward = played.odd_reward or not math.isfinite(reward)
        played.mismatch = played.mismatch or mismatch(space, observation)
    played.seconds += children_seconds() - apart
    if ended:
        played.returns.append(episode_return)
    return ended


def _main() -> None:
    asked = json.load(sys.stdin)
    sys.path[:] = asked["path"] or sys.path
    said = os.dup(1)
    os.dup2(2, 1)  # what a simulator prints is no answer
    answer = tried(EnvironmentSpec(**asked["spec"]))
    with os.fdopen(said, "w", encoding="utf-8") as saying:
        json.dump(answer, saying)
    os._exit(0)  # a simulator may crash while it is taken apart


if __name__ == "__main__":
    _main()
