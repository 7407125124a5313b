"""The check of an executor: it must play exactly like the local executor.

Both play policies that are sound, can't be loaded, fail, die and hang on the same cases; then a simulator is killed.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from evopolicygym.checks import crash_isolation
from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.errors import UsageError
from evopolicygym.core.options import AUTO, LOCAL
from evopolicygym.core.rollout import Episode, EpisodeJob, Executor, ExecutorInfo, Recording, Rollout
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.environments.versions import versions
from evopolicygym.rollout.cluster.node import Archive, pack
from evopolicygym.rollout.cluster.node_compatibility import incompatibilities
from evopolicygym.rollout.executor import EXECUTORS, ExecutorConfig
from evopolicygym.specs import catalog

CASES, STEPS = 4, 200
LIMITS = Limits(act_s=1.0)
"""Short, so that a policy that hangs costs a second."""
_POLICY = """\
import os
import numpy as np


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        {init}
        self.act_as = np.zeros(action_space["shape"]) if action_space["type"] == "Box" else 1
        self.steps = 0

    def reset(self, episode_index):
        print("episode", episode_index, np.random.random())

    def act(self, obs):
        self.steps += 1
        if self.steps == 5:
            {act}
        return self.act_as * int(np.random.random() < 0.5) if isinstance(self.act_as, int) else self.act_as
"""
POLICIES = {
    "plays": _POLICY.format(init="pass", act="pass"),
    "can't be loaded": _POLICY.format(init="raise ValueError('no')", act="pass"),
    "fails": _POLICY.format(init="pass", act="raise ValueError('no more')"),
    "dies": _POLICY.format(init="pass", act="os._exit(3)"),
    "hangs": "import time\n" + _POLICY.format(init="pass", act="time.sleep(600)"),
}


@dataclass(frozen=True, slots=True)
class PlayedCheckpoint:
    """Results of one checkpoint on one executor, without wall time."""

    load: LoadError | None
    episodes: Sequence[Episode] = ()
    files: Sequence[Archive] = ()
    repeated: Sequence[str] = field(default=(), compare=False)
    """Reasons of retries."""


def compare(name: str, address: str, spec: EnvironmentSpec, policies: dict[str, str]) -> Iterator[CheckResult]:
    """Play policies on an executor and on this machine; yield a finding for each."""
    here, there = _outcomes(LOCAL, "", spec, policies), _outcomes(name, address, spec, policies)
    our_info, info = next(here), next(there)
    if not isinstance(our_info, ExecutorInfo) or not isinstance(info, ExecutorInfo):
        raise TypeError("the first outcome must be an ExecutorInfo")
    differences = incompatibilities(our_info, info)
    level = f"{info.workers} workers at level {info.isolation}"
    yield CheckResult(f"{spec.name}: info", ok=not differences, detail="; ".join(differences) or level)
    for policy, expected, actual in zip(policies, here, there, strict=True):
        if isinstance(expected, PlayedCheckpoint) and isinstance(actual, PlayedCheckpoint):
            faults = list(_differences(expected, actual, killed=spec.id == crash_isolation.ID))
            detail = "; ".join(faults) or _describe_equal(actual)
            yield CheckResult(f"{spec.name}: a policy that {policy}", ok=not faults, detail=detail)


def _outcomes(
    name: str, address: str, spec: EnvironmentSpec, policies: dict[str, str]
) -> Iterator[ExecutorInfo | PlayedCheckpoint]:
    """Yield an executor's info, then the results of each policy."""
    if "token" in spec.arguments:
        spec = replace(spec, arguments={"token": secrets.token_hex(8)})
    with TemporaryDirectory(prefix="evopolicygym-parity-") as directory:
        workers, log = Path(directory, "workers"), Path(directory, "simulators.log")
        config = ExecutorConfig(spec, LIMITS, AUTO, workers, log, address=address)
        with closing(EXECUTORS.load(name)(config)) as executor:
            yield executor.info
            for number, text in enumerate(policies.values()):
                checkpoint = Path(directory, f"checkpoint-{number}")
                checkpoint.mkdir()
                (checkpoint / "policy.py").write_text(text, encoding="utf-8")
                yield _play(executor, spec, checkpoint)


def _play(executor: Executor, spec: EnvironmentSpec, checkpoint: Path) -> PlayedCheckpoint:
    info = executor.info
    schemas = info.observation_schema, info.action_schema
    context = PolicyContext(spec.name, 0, CASES, 0, spec.max_steps, *schemas, spec.reward_components)
    if error := executor.load(checkpoint, context):
        return PlayedCheckpoint(error)
    kinds = tuple(Recording)
    jobs = [
        EpisodeJob(case, case, 1000 + case, checkpoint.with_suffix(f".{case}"), kinds[case % len(kinds)])
        for case in range(CASES)
    ]
    repeated: list[str] = []
    rollout = Rollout(checkpoint, context, jobs)
    played = {job: each for _, job, each in executor.play([rollout], lambda _rollout, _job, why: repeated.append(why))}
    episodes = [played[job].timeless for job in jobs]
    return PlayedCheckpoint(None, episodes, [pack(job.directory) for job in jobs if job.directory], repeated)


def _differences(expected: PlayedCheckpoint, actual: PlayedCheckpoint, *, killed: bool) -> Iterator[str]:
    if expected.load != actual.load:
        yield f"it was loaded with {actual.load or 'success'} instead of {expected.load or 'success'}"
    for case, (episode, other) in enumerate(zip(expected.episodes, actual.episodes, strict=False)):
        if episode.trajectory_sha256 != other.trajectory_sha256:
            yield f"case {case} has another trajectory"
        elif episode.failure != other.failure:
            yield f"case {case} failed as {other.failure} instead of {episode.failure}"
        elif episode != other:
            yield f"case {case} came to {other} instead of {episode}"
    for case, (files, others) in enumerate(zip(expected.files, actual.files, strict=False)):
        if different := sorted(path for path in files.keys() | others.keys() if files.get(path) != others.get(path)):
            yield f"case {case} left other files: {', '.join(different)}"
    if killed and len(actual.repeated) != 1:
        yield f"one simulator was killed and {len(actual.repeated)} cases were played again"


def _describe_equal(played: PlayedCheckpoint) -> str:
    if played.load:
        return f"refused with {played.load.status} on both"
    reasons = sorted({episode.failure.reason.value for episode in played.episodes if episode.failure})
    ended = f", {', '.join(reasons)} on both" if reasons else ""
    files = sum(content is not None for archive in played.files for content in archive.values())
    return f"{len(played.episodes)} episodes and {files} files the same, bit for bit{ended}"


ENVIRONMENTS = ("cartpole", "half_cheetah", "pendulum")
"""The first is played, and the first of the others whose packages are installed."""


def check(name: str, address: str = "", environments: Sequence[str] = ENVIRONMENTS) -> Iterator[CheckResult]:
    """Check an executor on the cluster at an address; yield its findings."""
    for environment in _installed(environments):
        yield from compare(name, address, environment, POLICIES)
    yield from compare(name, address, crash_isolation.spec(""), {"has its simulator killed": POLICIES["plays"]})


def _installed(names: Sequence[str]) -> Iterator[EnvironmentSpec]:
    specs = (catalog.load(name) for name in names)
    first, *others = (replace(spec, max_steps=min(spec.max_steps, STEPS)) for spec in specs)
    yield first
    for other in others:
        try:
            versions(other)
        except UsageError:
            continue
        yield other
        return
