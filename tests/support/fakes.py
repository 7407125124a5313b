"""Trusted fakes: an executor that plays at once what a policy's text says, and the smallest run around it."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event as Flag
from typing import Any

import numpy as np

from evopolicygym.core import cases
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import PROTOCOL_VERSION, Split, SplitSource
from evopolicygym.core.event import (
    CheckpointSelected,
    CloseReason,
    EpisodePlayed,
    Event,
    RunClosed,
    RunFinished,
    RunOpened,
    RunStatus,
    SubmissionCharged,
    SubmissionPublished,
)
from evopolicygym.core.film import FilmJob, Sheet, Shot
from evopolicygym.core.rollout import Episode, EpisodeJob, ExecutorInfo, Failure, Rollout, Trial
from evopolicygym.core.spaces import Box, Discrete, to_schema
from evopolicygym.core.submission import LoadError, SubmissionStatus
from evopolicygym.core.task import (
    Anchor,
    BudgetRule,
    EnvironmentSpec,
    PolicyContext,
    Success,
    SuccessRule,
    Task,
    TaskKind,
)
from evopolicygym.judge.rollouts import EpisodeJobBuilder, Rollouts
from evopolicygym.judge.server import JudgeServer
from evopolicygym.judge.session import JudgeSession
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.rollback_guard import RollbackGuard
from evopolicygym.records.trajectories import EpisodeFiles, Trajectory, write_episode
from evopolicygym.records.writer import RunWriter
from evopolicygym.rollout.checkpoint import capture
from evopolicygym.specs.catalog import spec_sha256

SECRET = bytes(range(32))
TIME = "2026-01-01T00:00:00.000Z"
PATIENCE_S = 120.0
"""Seconds after which a test that waits for a thread gives up."""

TOY = EnvironmentSpec(
    name="toy",
    id="Toy-v0",
    family="toys",
    kind=TaskKind.TUNING,
    max_steps=3,
    objective="Return the number that stands in the policy.",
    reward="The number, in three parts.",
    termination="After three steps.",
    observation=("place", "speed"),
    action=("stay", "go"),
    idle_action=0,
    reward_components=("gain", "cost"),
    success=Success(SuccessRule.POSITIVE_RETURN, meaning="the number is positive"),
    random_anchor=Anchor(-123.456, 0.789, 256),
)
GROUNDS = ExecutorInfo(
    observation_schema=to_schema(Box((2,), "float32", -np.inf, np.inf)),
    action_schema=to_schema(Discrete(2)),
    versions={"python": "3", "toy": "1"},
    isolation="none",
    allowed_imports=("numpy==2",),
)


class FakeExecutor:
    """Plays at once; a policy is a text whose first word is the return of its every episode.

    A policy that begins with the name of a status (``import_error``, …) can't be loaded.
    """

    info = GROUNDS

    def __init__(self) -> None:
        self.loaded: list[str] = []
        """Names of the checkpoints that were constructed, in order."""
        self.checked: list[str] = []
        """Names of the checkpoints that were tried, in order."""
        self.played: list[tuple[str, EpisodeJob, PolicyContext]] = []
        """Checkpoint, case and context of each episode, in order."""
        self.failures: dict[int, Failure] = {}
        """How the policy fails, by the position of the episode."""
        self.fault: Exception | None = None
        """What playing raises."""
        self.gate = Flag()
        """Cleared, it holds up every episode."""
        self.gate.set()

    def load(self, checkpoint: Path, context: PolicyContext) -> LoadError | None:  # noqa: ARG002 - the contract's
        self.loaded.append(checkpoint.name)
        return _load_error(checkpoint)

    def check(self, checkpoint: Path, context: PolicyContext) -> Trial:  # noqa: ARG002 - as above
        self.checked.append(checkpoint.name)
        return Trial(_load_error(checkpoint))

    def play(
        self,
        rollouts: Sequence[Rollout],
        repeated: Callable[[Rollout, EpisodeJob, str], None],  # noqa: ARG002 - nothing of ours fails
    ) -> Iterator[tuple[Rollout, EpisodeJob, Episode]]:
        for rollout, job in ((each, job) for each in rollouts for job in each.jobs):
            if not self.gate.wait(PATIENCE_S):
                raise TimeoutError("nobody opened the gate")
            if self.fault:
                raise self.fault
            self.played.append((rollout.checkpoint.name, job, rollout.context))
            yield rollout, job, self._episode(float(_first_word(rollout.checkpoint)), job)

    def close(self) -> None:
        """There is nothing to stop."""

    def _episode(self, value: float, job: EpisodeJob) -> Episode:
        failure = self.failures.get(job.position)
        if job.directory:
            trajectory = Trajectory(
                observations=np.zeros((4, 2)),
                actions=np.zeros(3, dtype=np.int64),
                rewards=np.full(3, value / 3),
                infos=[{"gain": value, "cost": 0.0}] * 3,
                clipped=frozenset(),
                terminated=True,
                truncated=False,
            )
            files = EpisodeFiles(trajectory, b"printed", b"", failure, TOY.reward_components)
            write_episode(job.directory, files, job.recording)
        return replace(episode(value), failure=failure)


def episode(value: float) -> Episode:
    """Return what comes of one case of the toy."""
    return Episode(
        episode_return=value,
        length=3,
        terminated=True,
        truncated=False,
        trajectory_sha256="ab" * 32,
        success=value > 0,
        reward_components={"gain": 3 * value, "cost": 0.0},
    )


def task(**changes: Any) -> Task:
    """Return a task of the toy: a budget of 8, two cases for validation, three held out."""
    plain: dict[str, Any] = {"budget": BudgetRule(8), "validation_cases": 2, "held_out_cases": 3, "train_cases": 16}
    return Task(TOY, **(plain | changes))


def opening(**changes: Any) -> RunOpened:
    """Return the first event of a run on the toy."""
    case_set = cases.derive(SECRET, "toy")
    opened = RunOpened(
        time=TIME,
        run_id="run",
        protocol_version=PROTOCOL_VERSION,
        task=task(),
        agent=AgentConfig("scripted"),
        seed=0,
        split=SplitSource.PRIVATE,
        experiment="experiment",
        commitment=cases.commitment(case_set, cases.salt(SECRET, "toy")),
        versions=GROUNDS.versions,
        spec_sha256="",
        isolation="none",
        observation_schema=GROUNDS.observation_schema,
        action_schema=GROUNDS.action_schema,
    )
    opened = replace(opened, **changes)
    return opened if opened.spec_sha256 else replace(opened, spec_sha256=spec_sha256(opened.task.environment))


def charged(index: int, count: int = 2, checkpoint: str = "a", key: str = "") -> SubmissionCharged:
    """Return the charge of a submission of the first train cases."""
    return SubmissionCharged(TIME, index, checkpoint, tuple(range(count)), key)


def trained(index: int, position: int, value: float = 1.0, checkpoint: str = "a") -> EpisodePlayed:
    """Return a train episode."""
    return EpisodePlayed(Split.TRAIN, checkpoint, position, episode(value), index)


def published(index: int, status: SubmissionStatus = SubmissionStatus.OK) -> SubmissionPublished:
    """Return the publication of a submission's feedback."""
    error = None if status is SubmissionStatus.OK else LoadError(status, "it can't")
    return SubmissionPublished(TIME, index, status, "cd" * 32, 0.1, error)


def submitted(index: int, values: Sequence[float], checkpoint: str = "a") -> list[Event]:
    """Return all events of a submission that went well."""
    episodes = [trained(index, place, value, checkpoint) for place, value in enumerate(values)]
    return [charged(index, len(values), checkpoint), *episodes, published(index)]


def validated(checkpoint: str, values: Sequence[float]) -> list[EpisodePlayed]:
    """Return a checkpoint's validation."""
    return [EpisodePlayed(Split.VALIDATION, checkpoint, place, episode(value)) for place, value in enumerate(values)]


def held_out(checkpoint: str, values: Sequence[float]) -> list[EpisodePlayed]:
    """Return a checkpoint's held-out cases."""
    return [EpisodePlayed(Split.HELD_OUT, checkpoint, place, episode(value)) for place, value in enumerate(values)]


def whole_run() -> list[Event]:
    """Return all events of a run: two checkpoints, the second wins."""
    return [
        opening(),
        *submitted(0, [1.0, 2.0, 3.0, 4.0], "a"),
        *submitted(1, [5.0, 6.0, 7.0, 8.0], "b"),
        RunClosed(TIME, CloseReason.BUDGET_SPENT),
        *validated("a", [1.0, 2.0]),
        *validated("b", [3.0, 4.0]),
        CheckpointSelected(TIME, 1, "b", 3.5),
        *held_out("b", [1.0, 2.0, 3.0]),
        RunFinished(TIME, RunStatus.SCORED, 2.0, 0.5773502691896257),
    ]


class FakeCamera:
    """Films at once: a few bytes that say which case it was, of the episode as it was written down."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        """What filming raises."""
        self.steps = 0
        """Steps that it tells of."""
        self.shows_another = False
        """Whether the episode goes another way before it."""
        self.filmed: list[int] = []
        """Seeds, in order."""

    def film(self, job: FilmJob, advanced: Callable[[int], None]) -> Shot:
        self.filmed.append(job.seed)
        job.sheet.write_bytes(b"sheet")
        job.target.write_bytes(f"film of {job.seed}".encode())
        advanced(self.steps)
        if self.fault:
            raise self.fault
        lines = (job.actions / "trajectory.jsonl").read_text(encoding="utf-8").splitlines()
        value = sum(json.loads(line)["reward"] for line in lines) + self.shows_another
        sheet = Sheet(2, 1, 32, 24, (0, job.length))
        return Shot(job.length + 1, 1, 30.0, 32, 24, job.length, value, "ab" * 32, sheet)


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run on the toy, open and behind its door."""

    paths: RunPaths
    writer: RunWriter
    executor: FakeExecutor
    camera: FakeCamera
    rollouts: Rollouts
    session: JudgeSession
    door: JudgeServer

    def write_policy(self, text: str) -> None:
        """Put a policy of the fake's kind into the workspace."""
        (self.paths.system / "policy.py").write_text(text, encoding="utf-8")

    def journal(self) -> bytes:
        """Return the journal as it is on disk."""
        return self.paths.journal.read_bytes()

    def feedback(self, index: int) -> Path:
        """Return where a submission's feedback is read."""
        return self.paths.published_feedback(index)


@dataclass(frozen=True, slots=True)
class RunMaker:
    """Opens runs on the toy below one directory."""

    below: Path
    stack: ExitStack = field(default_factory=ExitStack)

    def __call__(self, name: str = "run", **changes: Any) -> OpenRun:
        return self.stack.enter_context(open_run(self.below / name, changes))


def guard_beside(root: Path) -> RollbackGuard:
    """Return where the high-water mark of a run on the toy is kept: beside its directory, never in the user's state."""
    directory = root.parent / "marks"
    directory.mkdir(exist_ok=True)
    return RollbackGuard(directory, "experiment", root.name)


@contextmanager
def open_run(
    root: Path,
    changes: Mapping[str, Any] | None = None,
    executor: FakeExecutor | None = None,
    deliver: Callable[[int], object] = lambda _: None,
) -> Iterator[OpenRun]:
    """Open a run on the toy, or take it up again where ``changes`` is None."""
    paths, executor, camera = RunPaths(root), executor or FakeExecutor(), FakeCamera()
    for directory in (paths.system, paths.feedback, paths.staging, paths.checkpoints):
        directory.mkdir(parents=True, exist_ok=True)
    if not (paths.system / "policy.py").exists():
        (paths.system / "policy.py").write_text("1", encoding="utf-8")
    first = None if changes is None else opening(task=task(**changes))
    with RunWriter(root, first, guard_beside(root)) as writer:
        limits = writer.state.opened.task.limits
        rollouts = Rollouts(writer, executor, EpisodeJobBuilder(cases.derive(SECRET, "toy"), SECRET, 0), camera=camera)
        with (
            JudgeSession(
                rollouts, lambda settings: capture(paths.system, paths.checkpoints, limits, settings=settings), deliver
            ) as session,
            JudgeServer(session) as door,
        ):
            yield OpenRun(paths, writer, executor, camera, rollouts, session, door)


def _first_word(checkpoint: Path) -> str:
    return (checkpoint / "policy.py").read_text(encoding="utf-8").split()[0]


def _load_error(checkpoint: Path) -> LoadError | None:
    word = _first_word(checkpoint)
    return LoadError(SubmissionStatus(word), "it can't", "Traceback …") if word in set(SubmissionStatus) else None
