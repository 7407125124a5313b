"""Where tests of rollouts play: policies written as text, behind a real wall, by one worker or by an executor."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from evopolicygym.core.environment import EnvironmentSpec
from evopolicygym.core.episode import Episode
from evopolicygym.core.errors import SandboxError
from evopolicygym.core.policy import PolicyContext
from evopolicygym.core.rollout import EpisodeJob, Executor, Grounds, Recording, Trial
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import Limits
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.rollout.messages import Check, Fault, Load, Play, Request, WorkerConfig
from evopolicygym.rollout.watchdog import HANG_S
from evopolicygym.rollout.worker import Worker
from evopolicygym.sandbox.levels import choose
from evopolicygym.sandbox.packages import policy_library

ROOMY = Limits(load_s=60.0, reset_s=60.0, act_s=60.0)
"""For tests of anything but time: a busy machine is no reason to fail one."""


def policy(act: str = "return self.still", init: str = "pass", reset: str = "pass", top: str = "") -> str:
    """Return a policy of which only the named bodies are of interest; by default it stands still."""
    bodies = (indent(dedent(body).strip(), " " * 8) for body in (init, reset, act))
    return (
        "import os, sys, time\nimport numpy as np\n{}\n\n"
        "class Policy:\n    def __init__(self, obs_space, action_space, env_meta):\n"
        '        self.still = np.zeros(2) if action_space["type"] == "Box" else 0\n{}\n'
        "    def reset(self, episode_index):\n{}\n    def act(self, obs):\n{}\n"
    ).format(dedent(top), *bodies)


@dataclass(frozen=True, slots=True)
class Played:
    """One episode and the directory it left."""

    episode: Episode
    directory: Path

    def read(self, name: str = "stdout.txt") -> str:
        return (self.directory / name).read_text()


@dataclass
class Playground:
    """An open executor, and a place for checkpoints and episodes."""

    executor: Executor
    spec: EnvironmentSpec
    root: Path
    repeated: list[str] = field(default_factory=list)
    """Why cases were played again."""
    _count: int = 0

    @property
    def context(self) -> PolicyContext:
        grounds = self.executor.grounds
        schemas = grounds.observation_schema, grounds.action_schema
        return PolicyContext(self.spec.name, 3, 2, 40, self.spec.max_steps, *schemas, self.spec.reward_components)

    def checkpoint(self, text: str, **beside: str) -> Path:
        """Lay out a policy, and other modules beside it."""
        self._count += 1
        directory = self.root / f"system-{self._count}"
        directory.mkdir()
        for name, content in {"policy": text, **beside}.items():
            (directory / f"{name}.py").write_text(content)
        return directory

    def load(self, text: str, **beside: str) -> LoadError | None:
        return self.executor.load(self.checkpoint(text, **beside), self.context)

    def check(self, text: str, **beside: str) -> Trial:
        return self.executor.check(self.checkpoint(text, **beside), self.context)

    def jobs(self, *seeds: int, recording: Recording = Recording.TRAJECTORY) -> list[EpisodeJob]:
        """Return one case for each seed, each with a directory of its own."""
        self._count += 1
        return [
            EpisodeJob(place, seed, 1000 + seed, self.root / f"episode-{self._count}-{place}", recording)
            for place, seed in enumerate(seeds)
        ]

    def play(self, text: str, *seeds: int, recording: Recording = Recording.TRAJECTORY, **beside: str) -> list[Played]:
        """Play one episode for each seed; return them in that order."""
        jobs = self.jobs(*seeds, recording=recording)
        checkpoint = self.checkpoint(text, **beside)
        ended = self.executor.play(checkpoint, self.context, jobs, lambda _, why: self.repeated.append(why))
        episodes = {job.position: episode for job, episode in ended}
        return [Played(episodes[job.position], job.directory) for job in jobs if job.directory]

    def play_one(self, text: str, seed: int = 0, **beside: str) -> Played:
        return self.play(text, seed, **beside)[0]


class OneWorker:
    """An executor that is a single worker in this very process, so that a test sees all of it."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.grounds: Grounds = worker.describe()

    def load(self, checkpoint: Path, context: PolicyContext) -> LoadError | None:
        return self._answer(Load(checkpoint, context))

    def check(self, checkpoint: Path, context: PolicyContext) -> Trial:
        return self._answer(Check(checkpoint, context))

    def play(
        self,
        checkpoint: Path,
        context: PolicyContext,
        jobs: Sequence[EpisodeJob],
        repeated: Callable[[EpisodeJob, str], None],  # noqa: ARG002 - it plays no case twice
    ) -> Iterator[tuple[EpisodeJob, Episode]]:
        for job in jobs:
            yield job, self._answer(Play(checkpoint, context, job))

    def close(self) -> None:
        self._worker.close()

    def _answer(self, request: Request) -> Any:  # an Episode, a LoadError or None, by the request
        reply = self._worker.answer(request)
        if isinstance(reply, Fault):
            raise reply.error()
        return reply


@contextmanager
def one_worker(level: str, spec: EnvironmentSpec, root: Path, limits: Limits = ROOMY) -> Iterator[Playground]:
    """Open a worker in this process; skip the test where its level can't work here."""
    _need(level)
    executor = OneWorker(
        Worker(WorkerConfig(spec, limits, level, None, root / "worker", HANG_S, library=policy_library()))
    )
    try:
        yield Playground(executor, spec, root)
    finally:
        executor.close()


@contextmanager
def local_executor(level: str, spec: EnvironmentSpec, root: Path, workers: int = 1) -> Iterator[Playground]:
    """Open an executor whose workers find the simulators of the tests; skip the test where its level can't work."""
    _need(level)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        with LocalExecutor(spec, ROOMY, level, root / "scratch", root / "log", workers) as executor:
            yield Playground(executor, spec, root)


def _need(level: str) -> None:
    try:
        choose(level)
    except SandboxError as error:
        pytest.skip(str(error))
