"""Where tests of rollouts play: policies written as text, in a real sandbox, by workers in processes of their own."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

import changed_worker
from evopolicygym.core.errors import SandboxError
from evopolicygym.core.rollout import Episode, EpisodeJob, Executor, Recording, Rollout, Trial
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.rollout import worker_process
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.sandbox.levels import choose
from places import SUPPORT

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
        info = self.executor.info
        schemas = info.observation_schema, info.action_schema
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

    def rollout(self, checkpoint: Path, *seeds: int) -> Rollout:
        """Return one case for each seed, for a policy that was laid out."""
        return Rollout(checkpoint, self.context, self.jobs(*seeds))

    def play(self, text: str, *seeds: int, recording: Recording = Recording.TRAJECTORY, **beside: str) -> list[Played]:
        """Play one episode for each seed; return them in that order."""
        jobs = self.jobs(*seeds, recording=recording)
        rollout = Rollout(self.checkpoint(text, **beside), self.context, jobs)
        ended = self.executor.play([rollout], lambda _rollout, _job, why: self.repeated.append(why))
        episodes = {job.position: episode for _, job, episode in ended}
        return [Played(episodes[job.position], job.directory) for job in jobs if job.directory]

    def play_one(self, text: str, seed: int = 0, **beside: str) -> Played:
        return self.play(text, seed, **beside)[0]


@contextmanager
def local_executor(
    level: str,
    spec: EnvironmentSpec,
    root: Path,
    workers: int = 1,
    limits: Limits = ROOMY,
    *,
    change: str = "",
    packages: tuple[str, ...] = (),
) -> Iterator[Playground]:
    """Open an executor whose workers find the simulators of the tests; skip the test where its level can't work.

    ``change`` names one of ``changed_worker.CHANGES``, ``packages`` what policies may import besides.
    """
    _need(level)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(SUPPORT), prepend=os.pathsep)
        if change:
            patch.setenv(changed_worker.VARIABLE, change)
            patch.setattr(worker_process, "WORKER_MODULE", changed_worker.__name__)
        scratch, log = root / "scratch", root / "log"
        config = ExecutorConfig(spec, limits, level, scratch, log, workers, policy_packages=packages)
        with LocalExecutor(config) as executor:
            yield Playground(executor, spec, root)


def one_worker(
    level: str, spec: EnvironmentSpec, root: Path, limits: Limits = ROOMY, **options: Any
) -> AbstractContextManager[Playground]:
    """Open an executor of one worker; the options are those of ``local_executor``."""
    return local_executor(level, spec, root, 1, limits, **options)


def _need(level: str) -> None:
    try:
        choose(level)
    except SandboxError as error:
        pytest.skip(str(error))
