"""The trial of a pack's task, as a program on the pack's Python: it plays episodes and prints the results as JSON.

Times are processor times of this process and its children.
"""

import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from evopolicygym.core.pack import PackText
from evopolicygym.core.spaces import from_schema, sample
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.derived import complete_spec, meanings
from evopolicygym.environments.description import describe_here
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.spaces import mismatch
from evopolicygym.environments.trace import repetitions, trace

SEED = 20260702
STEPS = 200
"""Steps that must repeat."""
REPETITIONS_S = 60.0
"""Seconds after which a process that repeats them begins no further repetition."""
KIBIBYTE, MEGABYTE = 1 << 10, 10**6


@dataclass(frozen=True, slots=True)
class Patience:
    """Time limits of episodes, in seconds of processor time."""

    first: float
    """Limit of the first episode."""
    others: float
    """Limit of all further episodes together."""
    episodes: int


AT_RANDOM, IDLING = Patience(8.0, 1.5, 8), Patience(0.5, 0.5, 1)


@dataclass(slots=True)
class PlayedEpisodes:
    """Results of some episodes of one policy."""

    returns: list[float] = field(default_factory=list)
    whole_seconds: list[float] = field(default_factory=list)
    """Time of each whole episode, including the creation of its environment."""
    steps: int = 0
    seconds: float = 0.0
    """Time of the environment's steps."""
    mismatch: str = ""
    odd_reward: bool = False


def try_task(bare: EnvironmentSpec) -> dict[str, Any]:
    """Return a task's results as JSON values."""
    description = describe_here(bare)
    complete = complete_spec(bare, description, PackText())
    spec = replace(bare, max_steps=complete.max_steps, idle_action=complete.idle_action)
    expected = trace(spec, SEED, STEPS)
    at_random = _play(spec, AT_RANDOM, _random_actions)
    idling = _play(spec, IDLING, _idle_actions) if spec.idle_action is not None else PlayedEpisodes()
    own, children = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    here = replace(spec, pack="")  # in other processes of this Python
    digests = [trace(spec, SEED, STEPS), *repetitions(here, SEED, STEPS, REPETITIONS_S)]
    return {
        "repeats": set(digests) == {expected},
        "repetitions": digests.count(expected),
        "steps_per_second": round(at_random.steps / at_random.seconds) if at_random.seconds else None,
        "random_mean": float(np.mean(at_random.returns)) if at_random.returns else None,
        "random_episodes": len(at_random.returns),
        "episode_seconds": _episode_seconds(at_random),
        "memory_mb": (own.ru_maxrss + children.ru_maxrss) * KIBIBYTE // MEGABYTE,
        "idle_mean": float(np.mean(idling.returns)) if idling.returns else None,
        "max_steps": spec.max_steps,
        "observation": _describe_space(description.observation_schema),
        "action": _describe_space(description.action_schema),
        "mismatch": at_random.mismatch or idling.mismatch,
        "odd_reward": at_random.odd_reward or idling.odd_reward,
    }


def _episode_seconds(played: PlayedEpisodes) -> float | None:
    """Return the mean time of an episode; the first, which may compile or load, counts only if there are no others."""
    seconds = played.whole_seconds[1:] or played.whole_seconds
    return float(f"{np.mean(seconds):.3g}") if seconds else None


def _describe_space(schema: Any) -> str:  # noqa: ANN401 - JSON
    return meanings(from_schema(schema), ())[0].removesuffix(".")


def _random_actions(environment: Environment, seed: int) -> Iterator[Any]:
    random, space = np.random.default_rng((SEED, seed)), environment.action_space
    while True:
        yield sample(space, random)


def _idle_actions(environment: Environment, _: int) -> Iterator[Any]:
    idle = environment.idle_action
    while True:
        yield idle


def _play(
    spec: EnvironmentSpec, patience: Patience, policy: Callable[[Environment, int], Iterator[Any]]
) -> PlayedEpisodes:
    """Play episodes until the limit; of a truncated episode only the steps count."""
    played, start = PlayedEpisodes(), time.process_time()
    for seed in range(patience.episodes):
        deadline = start + (patience.others if seed else patience.first)
        before = time.process_time() + children_seconds()
        environment = Environment(spec)
        try:
            observation = environment.reset(seed)
            ended = _play_episode(environment, observation, policy(environment, seed), played, deadline)
            seconds = time.process_time() + children_seconds() - before
        finally:
            environment.close()
        if not ended:
            break
        played.whole_seconds.append(seconds)
    return played


def _play_episode(
    environment: Environment, observation: object, actions: Iterator[Any], played: PlayedEpisodes, deadline: float
) -> bool:
    """Play an episode to its end or to the limit; return whether it ended."""
    space, episode_return, ended = environment.simulator.observation_space, 0.0, False
    played.mismatch = played.mismatch or mismatch(space, observation, bounds=False)
    children_before, now = children_seconds(), time.process_time()
    while not ended and now < deadline:
        action, before = next(actions), time.process_time()
        observation, reward, terminated, truncated, _ = environment.step(action)
        now = time.process_time()
        played.seconds += now - before
        played.steps, episode_return, ended = played.steps + 1, episode_return + reward, terminated or truncated
        played.odd_reward = played.odd_reward or not math.isfinite(reward)
        played.mismatch = played.mismatch or mismatch(space, observation, bounds=False)
    played.seconds += children_seconds() - children_before
    if ended:
        played.returns.append(episode_return)
    return ended


def _main() -> None:
    request = json.load(sys.stdin)
    sys.path[:] = request["path"] or sys.path
    stdout = os.dup(1)
    os.dup2(2, 1)  # a simulator's output goes to stderr
    answer = try_task(EnvironmentSpec(**request["spec"]))
    with os.fdopen(stdout, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)
    os._exit(0)  # skips teardown, in which a simulator may crash


PROCESSES = Path("/proc")
USER, SYSTEM = 11, 12
"""Fields of ``/proc/PID/stat`` after the program's name, counted from 0."""


def children_seconds() -> float:
    """Return the processor time of this process's children in seconds; 0 where unknown."""
    return sum(map(_seconds, _children()))


def _children() -> Iterator[str]:
    with suppress(OSError):
        for thread in (PROCESSES / "self" / "task").iterdir():
            yield from (thread / "children").read_text(encoding="ascii").split()


def _seconds(process: str) -> float:
    with suppress(OSError):
        fields = (PROCESSES / process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return (int(fields[USER]) + int(fields[SYSTEM])) / os.sysconf("SC_CLK_TCK")
    return 0.0


if __name__ == "__main__":
    _main()
