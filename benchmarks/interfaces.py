"""Interfaces: whether references play the same through them, what a step costs, and what agents make of them.

    python benchmarks/interfaces.py returns --draws 20            # every reference of Core16, bit for bit (an hour)
    python benchmarks/interfaces.py returns acrobot --draws 3 --cases 2
    python benchmarks/interfaces.py speed acrobot half_cheetah    # permuted against standard, in turn
    python benchmarks/interfaces.py agents acrobot reacher --budget 32

``returns`` exits with 1 where an episode differs in its return, its length, its end, its success or the parts of its
reward.
"""

import argparse
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import evopolicygym
from evopolicygym.agents.builtin.reference import write_reference
from evopolicygym.core.cases import PUBLIC_KEY, Split, derive
from evopolicygym.core.interface import InterfaceDraw, interface_key
from evopolicygym.core.rollout import Episode, EpisodeJob, Recording, Rollout
from evopolicygym.core.spaces import Discrete, from_schema
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.runs.anchors import repeating_policy
from evopolicygym.specs import catalog

LEVELS = ("permuted", "anonymous")
INTERFACES = ("standard", *LEVELS)


def play_reference(
    name: str, cases: int, draw: InterfaceDraw | None, workers: int | None = None
) -> list[tuple[Any, ...]]:
    """Return what came of the reference on train cases of the public split, as far as an interface must keep it."""
    return [
        (episode.episode_return, episode.length, episode.terminated, episode.success, dict(episode.reward_components))
        for episode in played_episodes(name, cases, draw, workers)
    ]


def played_episodes(name: str, cases: int, draw: InterfaceDraw | None, workers: int | None = None) -> list[Episode]:
    """Return the reference's episodes on train cases of the public split, through a drawn interface."""
    spec, seeds = catalog.load(name), derive(PUBLIC_KEY, name)
    with TemporaryDirectory() as temporary:
        root = Path(temporary)
        config = ExecutorConfig(
            spec, Limits(), "auto", root / "workers", root / "log", workers or min(cases, 2), interface=draw
        )
        with LocalExecutor(config) as executor:
            info = executor.info
            system = root / "system"
            system.mkdir()
            write_reference(name, system, info.interface)
            schemas = info.observation_schema, info.action_schema
            context = PolicyContext(name, 0, cases, 0, spec.max_steps, *schemas)
            jobs = [
                EpisodeJob(case, seeds.seed(Split.TRAIN, case), case, None, Recording.OUTPUT) for case in range(cases)
            ]
            played = executor.play([Rollout(system, context, jobs)], _repeated)
            found = {job.position: episode for _, job, episode in played}
    episodes = [found[case] for case in range(cases)]
    if failures := [episode.failure for episode in episodes if episode.failure]:
        raise SystemExit(f"{name}: the reference failed: {failures[0]}")
    return episodes


def _repeated(_job: EpisodeJob, why: str) -> None:
    raise SystemExit(why)


def drawn(name: str, level: str, number: int) -> InterfaceDraw:
    """Return the interface of a made-up experiment."""
    return InterfaceDraw(level, interface_key(hashlib.sha256(f"experiment {number}".encode()).digest(), name))


def core16() -> list[str]:
    """Return the environments of Core16."""
    return [name for name in catalog.names() if catalog.load(name).extra == "core16" or name == "acrobot"]


def compare_returns(names: Sequence[str], draws: int, cases: int) -> int:
    """Print for each task how many episodes are the same through drawn interfaces; return how many differ."""
    different = 0
    for name in names:
        standard = play_reference(name, cases, None)
        changed = 0
        for number in range(draws):
            level = LEVELS[number % len(LEVELS)]
            changed += sum(
                a != b for a, b in zip(standard, play_reference(name, cases, drawn(name, level, number)), strict=True)
            )
        mean = sum(found[0] for found in standard) / cases
        print(
            f"{name:22} {draws} draws of {cases} cases, mean return {mean:.4f}: {changed} episodes differ", flush=True
        )
        different += changed
    return different


def compare_speed(names: Sequence[str], rounds: int, cases: int) -> None:
    """Print the time of a step through a permuted interface against the standard one, in turn on one core.

    The policy repeats an action, so that episodes are long and its own time is short.
    """
    core = min(os.sched_getaffinity(0))
    for name in names:
        spec, draws = catalog.load(name), {"standard": None, "permuted": drawn(name, "permuted", 0)}
        seconds: dict[str, list[float]] = {level: [] for level in draws}
        with ExitStack() as stack:
            root = Path(stack.enter_context(TemporaryDirectory()))
            plays = {
                level: stack.enter_context(_opened(spec, root / level, core, draw, cases))
                for level, draw in draws.items()
            }
            for number in range(rounds):
                for level in list(draws)[:: 1 if number % 2 else -1]:
                    episodes = plays[level]()
                    steps = sum(episode.length for episode in episodes)
                    seconds[level].append(sum(episode.seconds for episode in episodes) / steps)
        each = {level: median(found) * 1e6 for level, found in seconds.items()}
        ratio = median(permuted / standard for standard, permuted in zip(*seconds.values(), strict=True))
        print(f"{name:22} standard {each['standard']:.1f} us a step, permuted {each['permuted']:.1f}: {ratio:.3f}")


@contextmanager
def _opened(
    spec: EnvironmentSpec, root: Path, core: int, draw: InterfaceDraw | None, cases: int
) -> Iterator[Callable[[], list[Episode]]]:
    """Yield what plays cases with a policy that repeats an action."""
    config = ExecutorConfig(spec, Limits(), "auto", root / "workers", root / "log", 1, interface=draw)
    root.mkdir()
    with LocalExecutor(config, [core]) as executor:
        info = executor.info
        space = from_schema(info.action_schema)
        action = space.start if isinstance(space, Discrete) else [0.0] * len(info.action_schema["low"])
        system = root / "system"
        system.mkdir()
        for name, content in repeating_policy(action).items():
            (system / name).write_bytes(content)
        context = PolicyContext(spec.name, 0, cases, 0, spec.max_steps, info.observation_schema, info.action_schema)
        jobs = [EpisodeJob(case, 1 + case, case, None, Recording.OUTPUT) for case in range(cases)]
        yield lambda: [episode for *_, episode in executor.play([Rollout(system, context, jobs)], _repeated)]


def play_agents(names: Sequence[str], agents: Sequence[str], budget: int, seeds: int) -> None:
    """Print the score of agents through each interface, in runs of the public split."""
    for name in names:
        for agent in agents:
            scores = []
            for interface in INTERFACES:
                with TemporaryDirectory() as runs:
                    played = [
                        evopolicygym.run(
                            name, agent, interface=interface, budget=budget, split="public", seed=seed, runs=runs
                        )
                        for seed in range(seeds)
                    ]
                scores.append(sum(run.score or 0.0 for run in played) / seeds)
            shown = ", ".join(f"{interface} {score:.2f}" for interface, score in zip(INTERFACES, scores, strict=True))
            print(f"{name:22} {agent:14} {budget} episodes, {seeds} runs each: {shown}", flush=True)


def main() -> int:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("returns", "speed", "agents"))
    parser.add_argument("names", nargs="*", help="environments; all of Core16 where none is named")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--cases", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--agents", nargs="+", default=["tuner", "random_search"])
    options = parser.parse_args()
    names = options.names or core16()
    match options.what:
        case "returns":
            return int(compare_returns(names, options.draws, options.cases) > 0)
        case "speed":
            compare_speed(names, options.rounds, options.cases)
        case "agents":
            play_agents(names, options.agents, options.budget, options.seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
