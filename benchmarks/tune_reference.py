"""Tunes the numbers of a reference policy on train cases of the public split, by CMA-ES.

    python benchmarks/tune_reference.py pusher --minutes 20
    python benchmarks/tune_reference.py ant --minutes 30 --cases 2 --processes 2

A policy that can be tuned keeps ``parameters.json`` beside it: ``numbers`` (each a number or a flat list), ``spread``
(for each, how far the search looks at first) and ``tuned_by`` (the command). It reads them as ``self.numbers``, no
earlier than in ``reset``. The file is written whenever the search's mean is better than before on cases that it isn't
guided by. Policies are played in this process, without a sandbox: only the house's own are.
"""

import argparse
import atexit
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
from cmaes import CMA

from evopolicygym.agents.builtin.reference import write_reference
from evopolicygym.core.cases import PUBLIC_KEY, Split, derive
from evopolicygym.core.spaces import action_reader, to_schema
from evopolicygym.core.task import EnvironmentSpec, TaskText
from evopolicygym.environments.environment import Environment
from evopolicygym.runs.environment import resolve_environment

REFERENCES = Path(__file__).resolve().parent.parent / "src" / "evopolicygym" / "references"
CHECKED_CASES = 16
"""Train cases, the last ones, that tell whether the search got better; it is guided by the others."""
CHECKED_EVERY = 5
"""Generations."""

Numbers = dict[str, Any]


def main() -> None:
    """Search until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="an environment whose reference policy has a parameters.json")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--cases", type=int, default=4, help="episodes by which a candidate is judged")
    parser.add_argument("--steps", type=int, help="judge candidates by so many first steps only")
    parser.add_argument("--population", type=int, default=20)
    parser.add_argument("--spread", type=float, default=1.0, help="the spreads of the file are multiplied by this")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    file = REFERENCES / options.name / "parameters.json"
    with ProcessPoolExecutor(options.processes) as pool:
        tune(file, options, pool)


def tune(file: Path, options: argparse.Namespace, pool: ProcessPoolExecutor) -> None:
    """Search around the file's numbers and keep in the file what is better."""
    found = json.loads(file.read_text(encoding="utf-8"))
    start, spread = found["numbers"], found["spread"]
    center = np.array(list(flat(start)), dtype=float)
    scale = np.array([spread[name] for name, value in start.items() for _ in flat({name: value})])
    seeds = list(derive(PUBLIC_KEY, options.name).seeds[Split.TRAIN])
    guiding, checking = seeds[:-CHECKED_CASES], seeds[-CHECKED_CASES:]
    search = CMA(np.zeros(len(center)), options.spread, seed=options.seed, population_size=options.population)

    def mean_returns(candidates: list[Numbers], cases: list[int], steps: int | None) -> np.ndarray:
        jobs = [(options.name, candidate, seed, steps) for candidate in candidates for seed in cases]
        returns = list(pool.map(episode_return, *zip(*jobs, strict=True)))
        return np.array(returns).reshape(len(candidates), len(cases)).mean(axis=1)

    def read(point: np.ndarray) -> Numbers:
        return shaped(start, center + scale * point)

    best = mean_returns([start], checking, None)[0]
    print(f"{options.name}: {len(center)} numbers, before {best:.2f}", flush=True)
    end = time.monotonic() + 60 * options.minutes
    while time.monotonic() < end:
        first = search.generation * options.cases
        cases = [guiding[(first + place) % len(guiding)] for place in range(options.cases)]
        points = [search.ask() for _ in range(options.population)]
        returns = mean_returns([read(point) for point in points], cases, options.steps)
        search.tell([(point, -value) for point, value in zip(points, returns, strict=True)])
        if search.generation % CHECKED_EVERY == 0:
            value = mean_returns([read(search.mean)], checking, None)[0]
            print(f"generation {search.generation}: best {returns.max():.2f}, checked {value:.2f}", flush=True)
            if value > best:
                best = value
                write(file, {**found, "numbers": read(search.mean)})


def episode_return(name: str, numbers: Numbers | None, seed: int, steps: int | None) -> float:
    """Play one episode in a fresh environment (some remember the episode before), with its own numbers for None."""
    spec = asked(name)
    environment = Environment(spec)
    observation = environment.reset(seed)
    observation_space, action_space = environment.observation_space, environment.action_space
    meta = {"env": name, "max_episode_steps": spec.max_steps}
    policy = load(name).Policy(to_schema(observation_space), to_schema(action_space), meta)
    if numbers is not None:
        policy.numbers = numbers
    random.seed(seed)
    policy.reset(0)
    read, total, steps_left, done = action_reader(action_space), 0.0, steps or spec.max_steps, False
    while not done and steps_left:
        observation, reward, terminated, truncated, _ = environment.step(read(policy.act(observation))[0])
        total, steps_left, done = total + reward, steps_left - 1, terminated or truncated
    environment.close()
    return total


@cache
def asked(name: str) -> EnvironmentSpec:
    """Return what is played: an environment of ours, or a task of a pack that plays on this Python."""
    return resolve_environment(name, TaskText.FULL)[0]


def load(name: str, loaded: dict[str, ModuleType] = {}) -> ModuleType:  # noqa: B006 - once a process
    """Return the module of a reference policy, imported from its whole project as it is laid into ``system/``."""
    if name not in loaded:
        system = TemporaryDirectory()
        atexit.register(system.cleanup)
        write_reference(name, Path(system.name))
        sys.path.insert(0, system.name)
        sys.modules.pop("policy", None)
        loaded[name] = import_module("policy")
        sys.path.remove(system.name)
    return loaded[name]


def flat(numbers: Numbers) -> Iterator[float]:
    """Go through all numbers in their order."""
    for value in numbers.values():
        yield from value if isinstance(value, list) else [value]


def shaped(like: Numbers, values: np.ndarray) -> Numbers:
    """Return numbers with the names of others, as many under each."""
    left = iter(float(f"{value:.5g}") for value in values)
    return {
        name: [next(left) for _ in value] if isinstance(value, list) else next(left) for name, value in like.items()
    }


def write(file: Path, content: dict[str, Any]) -> None:
    """Replace a file of parameters, one entry a line."""
    text = json.dumps(content, indent=1)
    for value in content["numbers"].values():
        if isinstance(value, list):
            text = text.replace(json.dumps(value, indent=1).replace("\n", "\n  "), json.dumps(value))
    file.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
