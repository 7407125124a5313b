"""Plays policies in worlds, and prints the tables of docs/use/worlds.md.

    python benchmarks/worlds.py shipped          # the reference in each world that ships, and in the standard one
    python benchmarks/worlds.py drawn            # the reference in ten drawn worlds of three tasks
    python benchmarks/worlds.py cost             # what a step through noise costs, in turn with the standard world
    python benchmarks/worlds.py play half_cheetah examples/foggy.toml

Policies are played in this process, without a sandbox, on the first held-out cases of the public split.
"""

import argparse
import atexit
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from evopolicygym.agents.kit import reference_policies
from evopolicygym.core.cases import PUBLIC_KEY, Split, derive, world_seed
from evopolicygym.core.score import Estimate, estimate
from evopolicygym.core.spaces import action_reader, sample, to_schema
from evopolicygym.core.task import EnvironmentSpec, PolicyContext, TaskText
from evopolicygym.core.world import World, decode_world
from evopolicygym.environments.environment import Environment
from evopolicygym.runs.environment import resolve_environment, resolve_world
from evopolicygym.specs import catalog, pack_catalog

PLAYED_BY = {"BipedalWalkerHardcore-v3": "bipedal_walker"}
"""Tasks without a reference policy of their own, and whose plays them."""
DRAWN: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "half_cheetah": {"body_mass": (0.7, 1.4), "actuator_gear": (0.7, 1.3), "geom_friction": (0.6, 1.4)},
    "bipedal_walker": {"gravity": (0.8, 1.2), "motor_strength": (0.8, 1.2)},
    "AdroitHandRelocate-v1": {"body_mass": (0.5, 2), "geom_friction": (0.5, 1.5)},
}
DRAWS = 10
COST_TASKS = ("half_cheetah", "ant", "bipedal_walker")
COST_STEPS, COST_TURNS = 500, 7
Act = Callable[[Any], Any]
"""Returns an action for an observation."""


@cache
def reference_module(task: str) -> Any:  # noqa: ANN401 - a module
    """Return the module of the reference policy of a task, whose files stay until this program ends."""
    place = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, place)
    for name, content in reference_policies.files_of(PLAYED_BY.get(task, task)).items():
        (place / name).write_bytes(content)
    for name in [file.stem for file in place.glob("*.py")]:
        sys.modules.pop(name, None)
    sys.path.insert(0, str(place))
    try:
        return import_module("policy")
    finally:
        sys.path.remove(str(place))


def reference_act(task: str, environment: Environment) -> Act:
    """Return what the reference policy of a task plays in one episode."""
    seen, done = to_schema(environment.observation_space), to_schema(environment.action_space)
    context = PolicyContext(environment.spec.name, 0, 1, 0, environment.spec.max_steps, seen, done)
    policy = reference_module(task).Policy(seen, done, context.env_meta())
    policy.reset(0)
    is_number, read = done["type"] == "Discrete", action_reader(environment.action_space)

    def act(observation: Any) -> Any:  # noqa: ANN401 - of any space
        raw = policy.act(observation)
        return read(int(raw) if is_number else np.asarray(raw, np.float64))[0]

    return act


def mean(task: str, world: World | None, who: str, cases: int, key: bytes = PUBLIC_KEY) -> Estimate:
    """Return the mean return of random or idle play, or of the reference, whose draws come from a key."""
    spec, _ = resolve_environment(task, TaskText.FULL)
    spec = spec if world is None else spec.in_world(world)
    returns = []
    for seed in derive(PUBLIC_KEY, spec.name).seeds[Split.HELD_OUT][:cases]:
        environment, random = Environment(spec, world_seed(key, spec.name)), np.random.default_rng(seed)
        observation, over, rewards = environment.reset(seed), False, 0.0
        acts: dict[str, Callable[[], Act]] = {
            "random": lambda: lambda _: sample(environment.action_space, random),  # noqa: B023 - called at once
            "idle": lambda: lambda _: environment.idle_action,  # noqa: B023 - called at once
            "reference": lambda: reference_act(task, environment),  # noqa: B023 - called at once
        }
        act = acts[who]()
        while not over:
            observation, reward, terminated, truncated, _ = environment.step(act(observation))
            rewards += reward
            over = terminated or truncated
        environment.close()
        returns.append(rewards)
    return estimate(returns)


def cell(found: Estimate) -> str:
    """Return a mean as the tables have it."""
    return f"{found.mean:.1f} ± {found.standard_error or 0:.1f}"


def compare(task: str, worlds: Iterable[World | None], cases: int) -> None:
    """Print a row for each world of a task."""
    for world in worlds:
        cells = [cell(mean(task, world, who, cases)) for who in ("random", "idle", "reference")]
        print(f"| {task} | {world.name if world else 'standard'} | {' | '.join(cells)} |", flush=True)


def shipped(cases: int) -> None:
    """Print the table of worlds that ship."""
    print("| task | world | random ± s.e. | idle ± s.e. | reference ± s.e. |\n|---|---|---|---|---|")
    for name in catalog.names():
        if worlds := catalog.worlds_of(name):
            compare(name, [None, *worlds.values()], cases)
    for task in (task for pack in pack_catalog.readable() for task in pack.tasks if task.worlds):
        compare(task.name, [None, *task.worlds.values()], cases)


def drawn(cases: int) -> None:
    """Print the table of ten draws."""
    print(f"| task | standard | {' | '.join(map(str, range(1, DRAWS + 1)))} |\n|---|---|{'---|' * DRAWS}")
    for task, ranges in DRAWN.items():
        world = decode_world({"drawn": ranges}, "drawn", "the benchmark")
        keys = [hashlib.sha256(f"draw {number}".encode()).digest() for number in range(DRAWS)]
        means = [mean(task, None, "reference", cases), *(mean(task, world, "reference", cases, key) for key in keys)]
        print(f"| {task} | {' | '.join(f'{one.mean:.0f}' for one in means)} |", flush=True)


def cost() -> None:
    """Print what a step through noise takes as a share of one of the standard world, in turn, medians."""
    print("| task | standard, µs a step | through noise | ratio |\n|---|---|---|---|")
    noise = {"noise": {"observation": {"absolute": 0.01}, "action": {"share": 0.01}}}
    for task in COST_TASKS:
        world = decode_world(noise, "noisy", "the benchmark")
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(COST_TURNS):
            for is_noisy in (False, True):
                spec = catalog.load(task)
                times[is_noisy].append(seconds_a_step(spec.in_world(world) if is_noisy else spec))
        plain, noisy = (1e6 * median(times[is_noisy]) for is_noisy in (False, True))
        print(f"| {task} | {plain:.1f} | {noisy:.1f} | {noisy / plain:.3f} |", flush=True)


def seconds_a_step(spec: EnvironmentSpec) -> float:
    """Return the processor time of a step of an environment, new episodes included."""
    environment, random, steps = Environment(spec), np.random.default_rng(1), 0
    environment.reset(1)
    action = sample(environment.action_space, random)
    begun = process_time()
    while steps < COST_STEPS:
        _, _, terminated, truncated, _ = environment.step(action)
        steps += 1
        if terminated or truncated:
            environment.reset(steps)
    seconds = process_time() - begun
    environment.close()
    return seconds / steps


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("shipped", "drawn", "cost", "play"))
    parser.add_argument("task", nargs="?", default="")
    parser.add_argument("world", nargs="?", default="")
    parser.add_argument("--cases", type=int, default=8)
    options = parser.parse_args()
    match options.what:
        case "shipped":
            shipped(options.cases)
        case "drawn":
            drawn(options.cases)
        case "cost":
            cost()
        case "play":
            compare(options.task, [None, resolve_world(options.task, options.world)], options.cases)


if __name__ == "__main__":
    main()
