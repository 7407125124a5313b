"""Processor time of what users wait for, beside the plain loop and the floor, now and with an earlier source tree.

    python benchmarks/whole_run.py [--before DIRECTORY] [--repeats 3]

``DIRECTORY`` is another checkout. All figures are processor time of whole process trees, system time included, so that
other programs disturb them less than they disturb the clock; sides take turns and medians are shown. The plain loop is
``gymnasium.make`` and a loop around it with the same policy, in one process, unrecorded. The floor of a step is that
loop with every observation sent through ``cat``; the floor of an episode is a process that is forked from one with
numpy and ends at once, a new environment, its reset, and one file written.
"""

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import gymnasium

SUBREAPER = 36
RUN = ("run", "acrobot", "--split", "public", "--json")
SHORT = (*RUN, "--agent", "random", "--budget", "1", "--validation", "1", "--held-out", "1")
FEW, MANY = 10, 60
"""Episodes of two programs whose difference is the cost of an episode."""
STEPS, IDS = (
    {"continuous_car": 999, "acrobot": 500},
    {"continuous_car": "MountainCarContinuous-v0", "acrobot": "Acrobot-v1"},
)
LONG_EPISODES = 12
IDLE = """
import numpy as np
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.action = 1 if action_space["type"] == "Discrete" else np.zeros(1, dtype=np.float32)
    def reset(self, episode_index): pass
    def act(self, obs): return self.action
"""
PLAY = """
import sys
from dataclasses import replace
from pathlib import Path
from evopolicygym.core import rollout
from evopolicygym.core.rollout import EpisodeJob
from evopolicygym.core.task import Limits, PolicyContext
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.specs import catalog
name, steps, episodes, checkpoint, root = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *map(Path, sys.argv[4:])
spec = replace(catalog.load(name), max_steps=steps)
with LocalExecutor(ExecutorConfig(spec, Limits(), "bubblewrap", root / "scratch", root / "log", 1)) as executor:
    info = executor.info if hasattr(executor, "info") else executor.grounds  # as earlier trees name it
    context = PolicyContext(name, 0, 1, 0, steps, info.observation_schema, info.action_schema)
    jobs = [EpisodeJob(n, n, n, root / "episodes" / str(n)) for n in range(episodes)]
    policy = checkpoint, context, jobs
    played = [[rollout.Rollout(*policy)]] if hasattr(rollout, "Rollout") else policy  # as earlier trees take it
    for _ in executor.play(*played, print):
        pass
"""
"""Plays episodes of a checkpoint, isolated and recorded."""


def used_by(command: list[str], source: Path) -> tuple[float, str]:
    """Return the processor time of a command with all its descendants, in seconds, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(source)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    printed = subprocess.run([sys.executable, *command], env=environment, stdout=subprocess.PIPE, check=True).stdout
    with suppress(ChildProcessError):
        while True:
            os.wait()  # orphans become this process's children
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, printed.decode()


def played(source: Path, name: str, steps: int, episodes: int, checkpoint: Path) -> float:
    """Return the processor time of a program that plays episodes, in seconds."""
    with tempfile.TemporaryDirectory() as root:
        line = ["-c", PLAY, name, str(steps), str(episodes), str(checkpoint), root]
        return used_by(line, source)[0]


def plain(name: str, episodes: int, steps: int, policy: Any, before_step: Callable[[Any], object] = id) -> float:  # noqa: ANN401 - of any class
    """Return the processor time of the plain loop over episodes of so many steps at most, in seconds."""
    began = process_time()
    for seed in range(episodes):
        environment = gymnasium.make(IDS[name], max_episode_steps=steps, disable_env_checker=True)
        policy.reset(0)
        observation, ended = environment.reset(seed=seed)[0], False
        while not ended:
            before_step(observation)
            observation, _, terminated, truncated, _ = environment.step(policy.act(observation))
            ended = terminated or truncated
        environment.close()
    return process_time() - began


def through_cat(name: str, steps: int, policy: Any) -> float:  # noqa: ANN401 - of any class
    """Return the processor time of a step of the plain loop through ``cat``, in seconds."""
    (theirs, there), (back, mine) = os.pipe(), os.pipe()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(["/bin/cat"], stdin=theirs, stdout=mine):
        os.close(theirs)
        os.close(mine)

        def exchange(observation: Any) -> None:  # noqa: ANN401 - an array
            os.write(there, observation.tobytes())
            os.read(back, 65_536)

        own = plain(name, LONG_EPISODES, steps, policy, exchange)
        os.close(there)
        os.close(back)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cat = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (own + cat) / (LONG_EPISODES * steps)


def least_episode(place: Path) -> float:
    """Return the processor time of an episode's unavoidable parts, in seconds."""
    began, before = process_time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    for seed in range(MANY):
        child = os.fork()
        if not child:
            os._exit(0)
        environment = gymnasium.make(IDS["acrobot"], disable_env_checker=True)
        environment.reset(seed=seed)
        environment.close()
        (place / str(seed)).write_bytes(bytes(1000))
        os.waitpid(child, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    children = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (process_time() - began + children) / MANY


class Side:
    """One source tree's figures, in seconds."""

    def __init__(self, source: Path, root: Path, idle: Path) -> None:
        self._source, self._root, self._idle = source, root, idle
        self.checkpoint = Path()
        """The policy that its tuner chose."""
        self.episodes = self.steps = 0
        """Of the run of the README."""
        self.score = 0.0

    def measure(self, figure: str) -> float:
        """Measure a figure once, in seconds; ``readme`` comes first, whose policy the others play."""
        match figure:
            case "readme":
                seconds, printed = used_by(["-m", "evopolicygym", *RUN, "--runs", str(self._root)], self._source)
                self._read(json.loads(printed))
                return seconds
            case "short":
                return used_by(["-m", "evopolicygym", *SHORT, "--runs", str(self._root)], self._source)[0]
            case "episode":
                few, many = (played(self._source, "acrobot", 1, count, self.checkpoint) for count in (FEW, MANY))
                return (many - few) / (MANY - FEW)
            case name:
                steps = STEPS[name]
                one, more = (played(self._source, name, count, LONG_EPISODES, self._idle) for count in (1, steps))
                return (more - one) / (LONG_EPISODES * (steps - 1))

    def _read(self, outcome: dict[str, Any]) -> None:
        root = Path(outcome["run"])
        self.score = outcome["outcome"]["score"]
        chosen = outcome["submissions"][outcome["outcome"]["selected_submission"]]["checkpoint"]
        self.checkpoint = root / "checkpoints" / chosen
        self.episodes = self.steps = 0
        for line in (root / "journal.jsonl").read_text().splitlines():
            event = json.loads(line)["event"]
            if event["kind"] == "episode_played":
                self.episodes, self.steps = self.episodes + 1, self.steps + event["episode"]["length"]


def policy_in(directory: Path, name: str) -> Any:  # noqa: ANN401 - of any class
    """Load a policy of ours into this process."""
    found = spec_from_file_location("policy", directory / "policy.py")
    if found is None or found.loader is None:
        raise FileNotFoundError(directory)
    module = module_from_spec(found)
    found.loader.exec_module(module)
    from evopolicygym.core.spaces import to_schema
    from evopolicygym.environments.spaces import from_gymnasium

    environment = gymnasium.make(IDS[name])
    schemas = [to_schema(from_gymnasium(space)) for space in (environment.observation_space, environment.action_space)]
    return module.Policy(*schemas, {"max_episode_steps": STEPS[name]})


def main() -> None:
    """Measure the sides in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="another checkout")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    here = Path(__file__).resolve().parents[1] / "src"
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        os.environ["XDG_STATE_HOME"] = str(root / "state")
        (root / "idle").mkdir()
        (root / "idle" / "policy.py").write_text(IDLE)
        sides = [
            Side(source, root / f"runs-{place}", root / "idle")
            for place, source in enumerate([here, *([asked.before.resolve() / "src"] if asked.before else [])])
        ]
        taken: dict[str, list[list[float]]] = {figure: [] for _, figure, _, _ in ROWS}
        least: list[dict[str, float]] = []
        for _ in range(asked.repeats):
            for figure, rows in taken.items():
                rows.append([side.measure(figure) for side in sides])
            least.append(_least(root, sides[0]))
        for side in sides:
            print(f"score {side.score}, {side.episodes} episodes, {side.steps} steps")
        print("\n".join(table(taken, least)))


def _least(root: Path, side: Side) -> dict[str, float]:
    """Measure the plain loop and the floors once."""
    (root / "least").mkdir(exist_ok=True)
    figures = {"floor of an episode": least_episode(root / "least")}
    for name, steps in STEPS.items():
        policy = policy_in(root / "idle", name)
        figures[name] = plain(name, LONG_EPISODES, steps, policy) / (LONG_EPISODES * steps)
        figures[f"floor of {name}"] = through_cat(name, steps, policy)
    tuned = policy_in(side.checkpoint, "acrobot")
    one = plain("acrobot", MANY, 1, tuned) / MANY
    step = (plain("acrobot", LONG_EPISODES, 50, tuned) / LONG_EPISODES - one) / 49
    return {**figures, "episode": one, "readme": side.episodes * one + (side.steps - side.episodes) * step}


ROWS = (
    ("`evopolicygym run acrobot`, s", "readme", "", 1.0),
    ("a run of one episode each, s", "short", "", 1.0),
    ("an episode of the tuner's policy, one step, ms", "episode", "floor of an episode", 1e3),
    ("a step of continuous_car, µs", "continuous_car", "floor of continuous_car", 1e6),
    ("a step of acrobot, µs", "acrobot", "floor of acrobot", 1e6),
)
"""Label, figure, floor and unit."""


def table(taken: Mapping[str, list[list[float]]], least: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """Yield the lines of the table of medians."""
    has_before = any(len(row) > 1 for rows in taken.values() for row in rows)
    heads = ["", "plain loop", "floor", *(["before"] if has_before else []), "now", "now / plain loop", "now / floor"]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for label, name, floor, unit in ROWS:
        now, *before = (median(column) for column in zip(*taken[name], strict=True))
        below = [median(figures[key] for figures in least) if key in least[0] else None for key in (name, floor)]
        cells = [f"{unit * value:.1f}" if value else "" for value in (*below, *before, now)]
        yield f"| {' | '.join([label, *cells, *(f'{now / value:.1f}' if value else '' for value in below)])} |"


if __name__ == "__main__":
    main()
