"""How fast rollouts are, beside the plain loop: prints one table; ``make bench`` runs it.

Ours is what a submission costs: policies behind the wall, a fresh process an episode, every step written to disk. The
limit is what anybody writes, ``gymnasium.make`` and a loop around it: the same environment with the same policy in one
process, unrecorded; what plays with shortcuts (``environments/fast/``) can be quicker. The floor is that loop with
every observation's bytes sent through ``cat``: what two processes cost a step on this machine even if the other one
does nothing. All play in turn on the same core, slice by slice, so that a noisy machine disturbs all; medians are
shown. What the engine does is not told here but in ``docs/decisions/0001-rollout-transport.md``. ``--parts`` prints the
parts of an episode and of a step instead, as minima, which need no quiet machine.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from subprocess import Popen
from time import perf_counter
from timeit import repeat
from typing import Any

import gymnasium

from evopolicygym.core.rollout import EpisodeJob, Rollout
from evopolicygym.core.spaces import action_reader, to_schema
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.environments.environment import Environment
from evopolicygym.rollout import episode as episodes_module
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.rollout.guest import layout
from evopolicygym.rollout.messages import Play, WorkerConfig
from evopolicygym.rollout.policy_process import PolicyProcess
from evopolicygym.rollout.worker import Worker
from evopolicygym.sandbox import private_copy
from evopolicygym.specs import catalog

ASKED = {"continuous_car": 0.28, "acrobot": 0.70, "half_cheetah": 0.65, "door_key": 0.88, "car_racing": 0.93}
"""The share of the limit that is asked of one core."""
ASKED_OF_ALL_CORES = 0.85
"""The share of cores times the one-core figure that is asked of all cores together."""
ASKED_FIXED_MS = 15.0
"""What an episode may cost beyond its steps and its environment's own making."""
ASKED_FEEDBACK_MS = 30.0
"""What writing a thousand steps of a state episode may take."""
SLICE_S = 0.3
"""About how long one slice of ours lasts, whole episodes only."""
LONG_EPISODE_S = 1.0
"""From this length of an episode on, fewer slices are played: their noise is small."""
LONG_SLICES = 3
SHORT_EPISODES = 24
"""Episodes of a single step in one slice of the fixed cost."""
MEMORY_EPISODES, MEMORY_STEPS = 128, 20
PARTS_EPISODES = 40
"""Episodes of which the shortest time of each part is shown."""
PHASES: tuple[tuple[str, Any, str], ...] = (
    ("create the environment", Environment, "__init__"),
    ("fork the policy process", PolicyProcess, "__init__"),
    ("wait until it is loaded", PolicyProcess, "wait_until_loaded"),
    ("have it reset", PolicyProcess, "reset"),
    ("play the steps", episodes_module, "_play_steps"),
    ("end the policy process", PolicyProcess, "end"),
    ("write the files", episodes_module, "write_episode"),
    ("the whole episode", Worker, "answer"),
)
"""Phases of an episode: label, owner and name of the function."""

POLICY = """
import numpy as np


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.action = {action!r} if action_space["type"] == "Discrete" else np.array({action!r}, dtype=np.float32)

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return self.action
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One environment's figures, times in the unit of their names."""

    environment: str
    limit_us: float
    """A step of the plain loop, its share of making and resetting the environment included."""
    floor_us: float
    """As ``limit_us``, with every observation's bytes sent through ``cat``."""
    ours_us: float
    """A step of ours on one core, everything included."""
    share: float
    asked: float | None
    unconfined_us: float
    """As ``ours_us``, at level none."""
    feedback_ms: float
    """What writing one whole episode's steps to disk takes."""
    fixed_ms: float
    """An episode of one step, less making, resetting and stepping the same environment in one process."""
    unconfined_fixed_ms: float
    all_cores: float | None
    """Steps a second with a worker on every core, over cores times the one-core figure; None on a single core."""


class Bench:
    """One environment, ready to be played either way."""

    def __init__(self, spec: EnvironmentSpec, root: Path) -> None:
        self.spec = spec
        self._root = root
        self._played = 0
        self.checkpoint = root / "system"
        self.checkpoint.mkdir(parents=True)
        text = POLICY.format(action=spec.idle_action)
        (self.checkpoint / "policy.py").write_text(text)
        names: dict[str, Any] = {}
        exec(text, names)  # noqa: S102 - the text above: both sides play the same policy
        self._policy = names["Policy"]

    @contextmanager
    def executor(self, level: str, workers: int = 1, max_steps: int | None = None) -> Iterator[LocalExecutor]:
        """Open workers that have loaded the policy once."""
        spec = replace(self.spec, max_steps=max_steps or self.spec.max_steps)
        name = f"{level}-{workers}-{max_steps}"
        config = ExecutorConfig(spec, Limits(), level, self._root / name, self._root / "log", workers)
        with LocalExecutor(config) as executor:
            executor.load(self.checkpoint, self.context(executor, spec))
            self.ours(executor, 2 * workers, max_steps)
            yield executor

    def context(self, executor: LocalExecutor, spec: EnvironmentSpec) -> PolicyContext:
        """Return what the policy is told."""
        schemas = executor.info.observation_schema, executor.info.action_schema
        return PolicyContext(spec.name, 0, 1, 0, spec.max_steps, *schemas)

    def ours(
        self, executor: LocalExecutor, episodes: int, max_steps: int | None = None, *, recorded: bool = True
    ) -> float:
        """Play episodes in the sandbox, recorded to disk; return seconds a step."""
        context = self.context(executor, replace(self.spec, max_steps=max_steps or self.spec.max_steps))
        jobs = [EpisodeJob(n, n, n, self._fresh_directory() if recorded else None) for n in range(episodes)]
        began = perf_counter()
        steps = sum(each.length for *_, each in executor.play([Rollout(self.checkpoint, context, jobs)], print))
        return (perf_counter() - began) / steps

    def plain(self, episodes: int, before_step: Callable[[], object] = int) -> float:
        """Play as many episodes here, in the same process; return seconds a step."""
        began, steps = perf_counter(), 0
        for seed in range(episodes):
            steps += self._plain_episode(seed, before_step)
        return (perf_counter() - began) / steps

    def through_cat(self, episodes: int, frame: bytes) -> float:
        """Play them in the same process, every step after a frame has gone to another process and come back."""
        (theirs, there), (back, mine) = os.pipe(), os.pipe()
        buffer = [bytearray(len(frame))]

        def exchange() -> None:
            left = len(frame) - (os.write(there, frame) and os.readv(back, buffer))
            while left:
                left -= len(os.read(back, left))

        with Popen(["/bin/cat"], stdin=theirs, stdout=mine):
            os.close(theirs)
            os.close(mine)
            try:
                return self.plain(episodes, before_step=exchange)
            finally:
                os.close(there)
                os.close(back)

    def _plain_episode(self, seed: int, before_step: Callable[[], object]) -> int:
        environment = gymnasium.make(self.spec.id, max_episode_steps=self.spec.max_steps, **self.spec.arguments)
        schema = {"type": type(environment.action_space).__name__}
        policy, steps, ended = self._policy({}, schema, {}), 0, False
        policy.reset(seed)
        observation, _ = environment.reset(seed=seed)
        while not ended:
            before_step()
            observation, _, terminated, truncated, _ = environment.step(policy.act(observation))
            ended, steps = terminated or truncated, steps + 1
        environment.close()
        return steps

    def short(self, episodes: int) -> float:
        """Make, reset and step an environment as ours does, here, so many times; return seconds each."""
        began = perf_counter()
        for seed in range(episodes):
            environment = Environment(self.spec)
            environment.reset(seed)
            environment.step(environment.idle_action)
            environment.close()
        return (perf_counter() - began) / episodes

    def _fresh_directory(self) -> Path:
        self._played += 1
        return self._root / "episodes" / f"ep_{self._played:05d}"


def paired(sides: list[Callable[[], float]], slices: int) -> list[float]:
    """Run the sides in turn, slice by slice; return the median of each."""
    taken = [[side() for side in sides] for _ in range(slices)]
    return [median(column) for column in zip(*taken, strict=True)]


def measure(spec: EnvironmentSpec, root: Path, slices: int) -> Row:
    """Return one environment's figures."""
    bench = Bench(spec, root)
    Environment(spec).close()  # imports what registers the id
    bench.plain(1)
    with bench.executor("bubblewrap") as ours, bench.executor("none") as unconfined:
        episode_s = bench.ours(ours, 1) * spec.max_steps
        slices = LONG_SLICES if episode_s > LONG_EPISODE_S else slices
        episodes = max(1, round(SLICE_S / episode_s))
        frame = bytes(layout.size(ours.info.observation_schema, wide=False))
        limit_s, floor_s, ours_s, unrecorded_s, unconfined_s = paired(
            [
                lambda: bench.plain(episodes),
                lambda: bench.through_cat(episodes, frame),
                lambda: bench.ours(ours, episodes),
                lambda: bench.ours(ours, episodes, recorded=False),
                lambda: bench.ours(unconfined, episodes),
            ],
            slices,
        )
    fixed_s, unconfined_fixed_s = _fixed(bench, slices)
    return Row(
        environment=spec.name,
        limit_us=limit_s * 1e6,
        floor_us=floor_s * 1e6,
        ours_us=ours_s * 1e6,
        share=limit_s / ours_s,
        asked=ASKED.get(spec.name),
        unconfined_us=unconfined_s * 1e6,
        feedback_ms=(ours_s - unrecorded_s) * spec.max_steps * 1e3,
        fixed_ms=fixed_s * 1e3,
        unconfined_fixed_ms=unconfined_fixed_s * 1e3,
        all_cores=_all_cores(bench, episodes, slices),
    )


def _fixed(bench: Bench, slices: int) -> tuple[float, float]:
    """Return what an episode costs beside its environment, in seconds: behind the wall, and without one."""
    with bench.executor("bubblewrap", 1, 1) as ours, bench.executor("none", 1, 1) as unconfined:
        short_s, ours_s, unconfined_s = paired(
            [
                lambda: bench.short(SHORT_EPISODES),
                lambda: bench.ours(ours, SHORT_EPISODES, 1),
                lambda: bench.ours(unconfined, SHORT_EPISODES, 1),
            ],
            slices,
        )
    return ours_s - short_s, unconfined_s - short_s


def _all_cores(bench: Bench, episodes: int, slices: int) -> float | None:
    cores = len(_CORES)
    if cores == 1:
        return None
    with _every_core(), bench.executor("bubblewrap", 1) as one, bench.executor("bubblewrap", cores) as all_of_them:
        one_s, all_s = paired(
            [lambda: bench.ours(one, episodes), lambda: bench.ours(all_of_them, episodes * cores)], slices
        )
    return one_s / all_s / cores


def memory_mb(root: Path) -> tuple[float, float]:
    """Return the peak memory of a worker in MiB, early and after ``MEMORY_EPISODES`` pixel episodes."""
    bench = Bench(catalog.load("car_racing"), root)
    with bench.executor("bubblewrap", 1, MEMORY_STEPS) as executor:
        bench.ours(executor, 8, MEMORY_STEPS)
        early = _peak_mb()
        bench.ours(executor, MEMORY_EPISODES, MEMORY_STEPS)
        return early, _peak_mb()


def print_parts(spec: EnvironmentSpec, root: Path) -> None:
    """Print the shortest times of an episode's phases in milliseconds, and of a step's parts in microseconds."""
    bench = Bench(spec, root)
    taken: dict[str, list[float]] = {label: [] for label, _, _ in PHASES}
    for label, owner, name in PHASES:
        setattr(owner, name, _timed(getattr(owner, name), taken[label]))
    memory = private_copy.new_directory()
    shared = memory.directory if memory else None
    for steps in (1, spec.max_steps):
        played, place = replace(spec, max_steps=steps), root / f"worker-{steps}"
        worker = Worker(WorkerConfig(played, Limits(), "bubblewrap", None, place, 300.0, in_memory=shared))
        schemas = (found := worker.describe()).observation_schema, found.action_schema
        for column in taken.values():
            column.clear()
        context, acting = PolicyContext(spec.name, 0, 1, 0, steps, *schemas), []
        for n in range(PARTS_EPISODES):
            reply: Any = worker.answer(Play(bench.checkpoint, context, EpisodeJob(n, n, n, root / "episode")))
            acting.append(reply.act_seconds)
        worker.close()
        print(f"{spec.name}, an episode of {reply.length} steps, ms")
        for label, column in taken.items():
            print(f"  {label:<28}{min(column) * 1e3:9.2f}")
        print(f"  {'a step, us':<28}{min(taken['play the steps']) / reply.length * 1e6:9.2f}")
        print(f"  {'of it in the policy, us':<28}{min(acting) * 1e6:9.2f}")
    if memory:
        memory.close()
    print("a step's parts alone, hot, us")
    for label, part in _step_parts(spec).items():
        print(f"  {label:<28}{min(repeat(part, number=500, repeat=100)) / 500 * 1e6:9.2f}")


def _timed(function: Callable[..., Any], column: list[float]) -> Callable[..., Any]:
    def timed(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - of any function
        began = perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            column.append(perf_counter() - began)

    return timed


def _step_parts(spec: EnvironmentSpec) -> dict[str, Callable[[], object]]:
    environment = Environment(spec)
    observation, action = environment.reset(0), environment.idle_action
    schemas = to_schema(environment.observation_space), to_schema(environment.action_space)
    question, answer = bytearray(layout.size(schemas[0], wide=False)), bytearray(layout.size(schemas[1], wide=True))
    shown, acted = layout.bind(schemas[0], question, wide=False), layout.bind(schemas[1], answer, wide=True)
    shown.write(observation)
    acted.write(action)
    raw, check = acted.read(), action_reader(environment.action_space)
    recorder = episodes_module.Recorder(question, 0, *schemas, 100_000)
    there, back = os.pipe()
    return {
        "worker: write observation": lambda: shown.write(observation),
        "worker: read action": acted.read,
        "worker: check action": lambda: check(raw),
        "worker: record": lambda: recorder.add(action, 0.0, {}),
        "policy: read observation": shown.read,
        "policy: write action": lambda: acted.write(action),
        "each: one write, one read": lambda: (os.write(back, question), os.readv(there, [question])),
    }


def _peak_mb() -> float:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    peaks = [Path(f"/proc/{child}/status").read_text().split("VmHWM:")[1].split()[0] for child in children]
    return max(map(int, peaks)) / 1024


_CORES = sorted(os.sched_getaffinity(0))


@contextmanager
def _every_core() -> Iterator[None]:
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _CORES)
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


COLUMNS = (
    ("limit", "us/step", ".1f", "limit_us"),
    ("floor", "us/step", ".1f", "floor_us"),
    ("ours", "us/step", ".1f", "ours_us"),
    ("share", "", ".2f", "share"),
    ("asked", "", ".2f", "asked"),
    ("open", "us/step", ".1f", "unconfined_us"),
    ("feedback", "ms/ep", ".1f", "feedback_ms"),
    ("fixed", "ms/ep", ".1f", "fixed_ms"),
    ("open", "ms/ep", ".1f", "unconfined_fixed_ms"),
    ("cores", "", ".2f", "all_cores"),
)
"""Head, unit, format and field of each figure; *open* is ours at level none."""


def heads() -> str:
    """Return the table's two head lines."""
    return "\n".join(f"{'':<16}" + "".join(f"{column[place]:>10}" for column in COLUMNS) for place in (0, 1))


def line(row: Row) -> str:
    """Return one environment's figures as a line of the table."""
    values = [(getattr(row, field), form) for _, _, form, field in COLUMNS]
    return f"{row.environment:<16}" + "".join(f"{'-' if v is None else format(v, form):>10}" for v, form in values)


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description="Rollouts of ours beside the plain loop.")
    parser.add_argument("environments", nargs="*", default=list(ASKED), help="names of environments")
    parser.add_argument("--slices", type=int, default=7, help="paired slices for each figure")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--parts", action="store_true", help="print the parts of an episode and of a step instead")
    asked = parser.parse_args()
    os.sched_setaffinity(0, _CORES[:1])
    if asked.parts:
        with tempfile.TemporaryDirectory() as parts_root:
            print_parts(catalog.load(asked.environments[0]), Path(parts_root))
        return
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as root:
        for name in asked.environments:
            rows.append(measure(catalog.load(name), Path(root) / name, asked.slices))
            if not asked.json:
                print(line(rows[-1]) if rows[1:] else f"{heads()}\n{line(rows[-1])}", flush=True)
        early, late = memory_mb(Path(root) / "memory")
    if asked.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "worker_peak_mb": [early, late]}, indent=2))
        return
    print(
        f"asked besides: fixed < {ASKED_FIXED_MS:.0f} ms, feedback of a state episode < {ASKED_FEEDBACK_MS:.0f} ms, "
        f"cores >= {ASKED_OF_ALL_CORES:.2f} on a quiet machine\n"
        f"worker's peak memory: {early:.0f} MiB early, {late:.0f} MiB after {MEMORY_EPISODES} more pixel episodes"
    )


if __name__ == "__main__":
    main()
