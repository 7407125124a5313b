"""Plays policies in worlds, and prints the tables of docs/use/worlds.md.

    python benchmarks/worlds.py shipped          # the reference in each world that ships, and in the standard one
    python benchmarks/worlds.py drawn            # the reference in ten drawn worlds of three tasks
    python benchmarks/worlds.py cost             # what a step through noise costs, in turn with the standard world
    python benchmarks/worlds.py play reacher world.toml --cases 16

Policies play in the sandbox that any policy plays in, on the first held-out cases of the public split.
"""

import argparse
import hashlib
from collections.abc import Iterable, Mapping
from statistics import median
from time import process_time

import numpy as np

from evopolicygym import references
from evopolicygym.core.cases import PUBLIC_KEY, Split
from evopolicygym.core.errors import UsageError
from evopolicygym.core.score import Estimate, estimate
from evopolicygym.core.spaces import sample
from evopolicygym.core.task import EnvironmentSpec, TaskText
from evopolicygym.core.world import World, decode_world
from evopolicygym.environments.environment import Environment
from evopolicygym.runs.anchors import AnchorPlayer, repeating_policy, starter_policy
from evopolicygym.runs.asked_environment import asked_environment, asked_world
from evopolicygym.specs import catalog, pack_catalog

PLAYED_BY = {"BipedalWalkerHardcore-v3": "bipedal_walker"}
"""Tasks without a reference policy of their own, and whose plays them."""
DRAWN: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "reacher": {"body_mass": (0.5, 2), "dof_damping": (0.5, 2), "actuator_gear": (0.5, 1.5)},
    "bipedal_walker": {"gravity": (0.8, 1.2), "motor_strength": (0.8, 1.2)},
    "parking": {"acceleration": (0.6, 1.4), "steering": (0.6, 1.4)},
}
DRAWS = 10
COST_TASKS = ("reacher", "ant", "bipedal_walker")
COST_STEPS, COST_TURNS = 1000, 9


def reference_files(task: str) -> dict[str, bytes]:
    """Return the files of the policy that plays a task."""
    return references.files_of(PLAYED_BY.get(task, task))


def mean(player: AnchorPlayer, policy: Mapping[str, bytes], cases: int, key: bytes = PUBLIC_KEY) -> Estimate | None:
    """Return the mean return of a policy; None where it fails."""
    try:
        episodes = player.play(policy, Split.HELD_OUT, cases, key=key).episodes
    except UsageError:
        return None
    return estimate([episode.episode_return for episode in episodes])


def cell(found: Estimate | None) -> str:
    """Return a mean as the tables have it."""
    return "fails" if found is None else f"{found.mean:.2f} ± {found.standard_error or 0:.2f}"


def spec_of(task: str, world: World | None) -> EnvironmentSpec:
    """Return the spec of a task, in a world or in the standard one."""
    spec, _ = asked_environment(task, TaskText.FULL)
    return spec if world is None else spec.in_world(world)


def compare(task: str, worlds: Iterable[World | None], cases: int) -> None:
    """Print a row for each world of a task."""
    for world in worlds:
        spec = spec_of(task, world)
        with AnchorPlayer(spec) as player:
            policies = starter_policy(), repeating_policy(spec.idle_action), reference_files(task)
            cells = [cell(mean(player, policy, cases)) for policy in policies]
        print(f"| {task} | {world.name if world else 'standard'} | {' | '.join(cells)} |", flush=True)


def shipped(cases: int) -> None:
    """Print the table of worlds that ship."""
    print("| task | world | random | idle | reference |\n|---|---|---|---|---|")
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
        with AnchorPlayer(spec_of(task, None)) as player:
            means = [mean(player, reference_files(task), cases)]
        keys = [hashlib.sha256(f"draw {number}".encode()).digest() for number in range(DRAWS)]
        with AnchorPlayer(spec_of(task, world)) as player:
            means += [mean(player, reference_files(task), cases, key) for key in keys]
        print(f"| {task} | {' | '.join(f'{one.mean:.2f}' if one else 'fails' for one in means)} |", flush=True)


def cost() -> None:
    """Print what a step through noise takes as a share of one of the standard world, in turn, medians."""
    print("| task | standard, µs a step | through noise | ratio |\n|---|---|---|---|")
    noise = {"noise": {"observation": {"absolute": 0.01}, "action": {"share": 0.01}}}
    for task in COST_TASKS:
        world = decode_world(noise, "noisy", "the benchmark")
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(COST_TURNS):
            for is_noisy in (False, True):
                times[is_noisy].append(seconds_a_step(spec_of(task, world if is_noisy else None)))
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
    parser.add_argument("--cases", type=int, default=32)
    options = parser.parse_args()
    match options.what:
        case "shipped":
            shipped(options.cases)
        case "drawn":
            drawn(options.cases)
        case "cost":
            cost()
        case "play":
            compare(options.task, [None, asked_world(options.task, options.world)], options.cases)


if __name__ == "__main__":
    main()
