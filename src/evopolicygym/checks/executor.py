"""The check of an executor: it must play exactly as the local executor does.

Checkpoints that play, can't be loaded, fail, die and hang are played on the same cases by both executors, then a
simulator is killed. No case of a judge is played, and nothing is kept.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from evopolicygym.checks import crash_isolation
from evopolicygym.core.errors import UsageError
from evopolicygym.core.finding import Finding
from evopolicygym.core.options import AUTO, LOCAL
from evopolicygym.core.rollout import Episode, EpisodeJob, Executor, ExecutorInfo, Recording
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import EnvironmentSpec, Limits, PolicyContext
from evopolicygym.environments.versions import versions
from evopolicygym.rollout.cluster.archive import Archive, pack
from evopolicygym.rollout.cluster.node_compatibility import incompatibilities
from evopolicygym.rollout.executor import EXECUTORS, ExecutorConfig
from evopolicygym.specs import catalog

CASES, STEPS = 4, 200
LIMITS = Limits(act_s=1.0)
"""Short, so that what hangs does so for a second."""
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
    """Why cases were played again."""


def compared(name: str, address: str, spec: EnvironmentSpec, policies: dict[str, str]) -> Iterator[Finding]:
    """Yield what is the same of policies on an executor and on this machine, and what is not."""
    here, there = _outcomes(LOCAL, "", spec, policies), _outcomes(name, address, spec, policies)
    ours, theirs = next(here), next(there)
    if not isinstance(ours, ExecutorInfo) or not isinstance(theirs, ExecutorInfo):
        raise TypeError("what an executor found comes first")
    differences = incompatibilities(ours, theirs)
    level = f"{theirs.workers} workers at level {theirs.isolation}"
    yield Finding(f"{spec.name}: grounds", ok=not differences, detail="; ".join(differences) or level)
    for policy, expected, played in zip(policies, here, there, strict=True):
        if isinstance(expected, PlayedCheckpoint) and isinstance(played, PlayedCheckpoint):
            wrong = list(_differences(expected, played, killed=spec.id == crash_isolation.ID))
            detail = "; ".join(wrong) or _same(played)
            yield Finding(f"{spec.name}: a policy that {policy}", ok=not wrong, detail=detail)


def _outcomes(
    name: str, address: str, spec: EnvironmentSpec, policies: dict[str, str]
) -> Iterator[ExecutorInfo | PlayedCheckpoint]:
    """Yield what an executor found, then what came of each policy."""
    if "token" in spec.arguments:
        spec = replace(spec, arguments={"token": secrets.token_hex(8)})
    with TemporaryDirectory(prefix="evopolicygym-parity-") as place:
        config = ExecutorConfig(
            spec, LIMITS, AUTO, Path(place, "workers"), Path(place, "simulators.log"), address=address
        )
        with closing(EXECUTORS.load(name)(config)) as executor:
            yield executor.grounds
            for number, text in enumerate(policies.values()):
                checkpoint = Path(place, f"checkpoint-{number}")
                checkpoint.mkdir()
                (checkpoint / "policy.py").write_text(text, encoding="utf-8")
                yield _played(executor, spec, checkpoint)


def _played(executor: Executor, spec: EnvironmentSpec, checkpoint: Path) -> PlayedCheckpoint:
    grounds = executor.grounds
    schemas = grounds.observation_schema, grounds.action_schema
    context = PolicyContext(spec.name, 0, CASES, 0, spec.max_steps, *schemas, spec.reward_components)
    if error := executor.load(checkpoint, context):
        return PlayedCheckpoint(error)
    kinds = tuple(Recording)
    jobs = [
        EpisodeJob(place, place, 1000 + place, checkpoint.with_suffix(f".{place}"), kinds[place % len(kinds)])
        for place in range(CASES)
    ]
    repeated: list[str] = []
    played = dict(executor.play(checkpoint, context, jobs, lambda _job, why: repeated.append(why)))
    episodes = [played[job].timeless for job in jobs]
    return PlayedCheckpoint(None, episodes, [pack(job.directory) for job in jobs if job.directory], repeated)


def _differences(ours: PlayedCheckpoint, theirs: PlayedCheckpoint, *, killed: bool) -> Iterator[str]:
    if ours.load != theirs.load:
        yield f"it was loaded with {theirs.load or 'success'} instead of {ours.load or 'success'}"
    for place, (item, other) in enumerate(zip(ours.episodes, theirs.episodes, strict=False)):
        if item.trajectory_sha256 != other.trajectory_sha256:
            yield f"case {place} has another trajectory"
        elif item.failure != other.failure:
            yield f"case {place} failed as {other.failure} instead of {item.failure}"
        elif item != other:
            yield f"case {place} came to {other} instead of {item}"
    for place, (files, others) in enumerate(zip(ours.files, theirs.files, strict=False)):
        if wrong := sorted(path for path in files.keys() | others.keys() if files.get(path) != others.get(path)):
            yield f"case {place} left other files: {', '.join(wrong)}"
    if killed and len(theirs.repeated) != 1:
        yield f"one simulator was killed and {len(theirs.repeated)} cases were played again"


def _same(played: PlayedCheckpoint) -> str:
    """Return in words what was the same."""
    if played.load:
        return f"refused with {played.load.status} on both"
    reasons = sorted({episode.failure.reason.value for episode in played.episodes if episode.failure})
    ended = f", {', '.join(reasons)} on both" if reasons else ""
    files = sum(content is not None for archive in played.files for content in archive.values())
    return f"{len(played.episodes)} episodes and {files} files the same, bit for bit{ended}"


ENVIRONMENTS = ("cartpole", "half_cheetah", "pendulum")
"""The first, and the first of the others whose packages are installed, are played."""


def check(name: str, address: str = "", environments: Sequence[str] = ENVIRONMENTS) -> Iterator[Finding]:
    """Check an executor on the cluster at an address; yield what is the same as on this machine, and what is not."""
    for environment in _installed(environments):
        yield from compared(name, address, environment, POLICIES)
    yield from compared(name, address, crash_isolation.spec(""), {"has its simulator killed": POLICIES["plays"]})


def _installed(asked: Sequence[str]) -> Iterator[EnvironmentSpec]:
    first, *others = (_short(catalog.load(item)) for item in asked)
    yield first
    for other in others:
        try:
            versions(other)
        except UsageError:
            continue
        yield other
        return


def _short(spec: EnvironmentSpec) -> EnvironmentSpec:
    return replace(spec, max_steps=min(spec.max_steps, STEPS))
