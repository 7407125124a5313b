"""One training session: a drawn task, a budget and a seat, played by a shared pool and kept in memory.

Its rules are a run's: the same fold over the same events (``core/run.py``), the same checks of a submission, selection
and scoring (``judge/``). It has no directory of its own but for its checkpoints and the latest episode that its agent
may look at; its event log is one file, where one is kept.

``submit`` returns at once and workers play; ``look`` and ``finish`` tell what has come of it. Hidden validation and
held-out are played when the budget is spent or the agent has finished; with the shaping ``validation``, hidden
validation follows each submission.
"""

import secrets
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

from evopolicygym.analysis.ranking.known_scale import KnownScale
from evopolicygym.core import cases
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import PROTOCOL_VERSION, SEED_BITS, Split, SplitSource
from evopolicygym.core.errors import EvoPolicyGymError, RefusalStatus, RequestRefused
from evopolicygym.core.event import (
    EpisodePlayed,
    EpisodeRepeated,
    Event,
    FinishAsked,
    RunClosed,
    RunOpened,
    SubmissionPublished,
)
from evopolicygym.core.interface import InterfaceDraw, draw_interface, interface_key, shown_schemas
from evopolicygym.core.rollout import Episode, EpisodeJob, Executor, ExecutorInfo, Recording, Rollout
from evopolicygym.core.run import RunState, Stage, SubmissionState, after
from evopolicygym.core.score import total
from evopolicygym.core.submission import LoadError, SubmissionStatus
from evopolicygym.core.task import PolicyContext, TaskInterface
from evopolicygym.core.text import now
from evopolicygym.judge import feedback
from evopolicygym.judge.request import SubmitRequest
from evopolicygym.judge.rollouts import EpisodeJobBuilder, scoring, selection
from evopolicygym.judge.session import charge_event, charge_of, require_submissions
from evopolicygym.records import task_text
from evopolicygym.records.checkpoints import checkpoint_name
from evopolicygym.records.journal import Journal, normalize_event
from evopolicygym.runs.anchors import starter_policy
from evopolicygym.specs.catalog import spec_sha256
from evopolicygym.training.actions import (
    ACTIONS,
    case_range,
    encode_content,
    parse_arguments,
    parse_path,
    refusal,
)
from evopolicygym.training.draw import DrawnTask
from evopolicygym.training.pool import Pool
from evopolicygym.training.report import describe_submissions
from evopolicygym.training.rewards import RewardRule, Worth
from evopolicygym.version import __version__

AGENT = AgentConfig("training")
AT_ONCE = 4
"""Episodes of a submission that one worker plays in turn before it looks after other sessions."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an action returns."""

    text: str
    """For the agent."""
    reward: float
    """How much the session's value changed since the last action."""
    done: bool
    """Whether the session is scored."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """All rewards by name (``training/rewards.py``)."""


def join_outcomes(outcomes: Sequence[Outcome]) -> Outcome:
    """Return several actions' outcomes as that of one step."""
    names = dict.fromkeys(name for outcome in outcomes for name in outcome.rewards)
    return Outcome(
        "\n".join(outcome.text for outcome in outcomes),
        total([outcome.reward for outcome in outcomes]),
        outcomes[-1].done,
        {name: total([outcome.rewards.get(name, 0.0) for outcome in outcomes]) for name in names},
    )


@dataclass(slots=True)
class _Evaluation:
    """A checkpoint's hidden episodes of one split, which may be played before the run closes."""

    episodes: list[Episode | None]

    @property
    def is_played(self) -> bool:
        return None not in self.episodes

    @property
    def mean(self) -> float | None:
        returns = [episode.episode_return for episode in self.episodes if episode]
        return sum(returns) / len(returns) if self.is_played else None


@dataclass(frozen=True, slots=True)
class StartedAction:
    """An action that was accepted; what it started may still be played."""

    text: str
    step: int | None = None
    """The step from which an episode is shown, if the agent has asked to look."""
    waits: bool = False
    """Whether it is worth waiting until nothing is played."""


class TrainingSession:
    """One session; its methods may be called from any thread."""

    def __init__(
        self,
        drawn: DrawnTask,
        pool: Pool,
        info: ExecutorInfo,
        scale: KnownScale,
        rule: RewardRule,
    ) -> None:
        """Open a session. ``info`` are the pool's for this task."""
        self.id = secrets.token_urlsafe(16)
        self.drawn, self.scale, self.rule = drawn, scale, rule
        self._pool = pool
        spec, secret = drawn.task.environment, drawn.secret
        interface = _interface_of(drawn)
        sizes = {
            Split.TRAIN: drawn.task.train_cases,
            Split.VALIDATION: drawn.task.validation_cases,
            Split.HELD_OUT: drawn.task.held_out_cases,
        }
        case_set = cases.derive(secret, spec.name, SEED_BITS, sizes)
        self._builder = EpisodeJobBuilder(case_set, secret, 0, interface)
        self._changed = threading.Condition(threading.RLock())
        self._place = pool.directory / self.id
        self._place.mkdir()
        self._journal: Journal | None = None
        self.state = after(None, self._logged(_opening(drawn, info, self._builder, self.id)))
        self._files: dict[str, bytes] = starter_policy()
        self._evaluations: dict[tuple[Split, str], _Evaluation] = {}
        self._last_worth = Worth()
        self.rewards: list[float] = []
        """The rewards that were given so far."""
        self.fault: EvoPolicyGymError | None = None
        """Why the session can't go on; None if it can."""
        self.closed = False
        self.last_used = monotonic()
        """When its agent last acted."""
        self._watchers: list[Callable[[], None]] = []

    def log_events(self, log: Path) -> None:
        """Write its events to a new file from now on; call it before anything else."""
        self._journal = Journal(log)
        self._journal.append(self.state.opened, flush=False)

    # For the agent.

    @property
    def task(self) -> str:
        """What the agent reads first."""
        return f"{task_text.task_text(self.state, has_workspace=False)}\n## What you do\n\n{ACTIONS}"

    def act(self, action: str, arguments: Mapping[str, Any], wait_s: float = 0.0) -> Outcome:
        """Do one of the actions of ``TOOLS``, wait up to so many seconds for what it started, and return its outcome.

        Raises ``RequestRefused`` for an invalid action, which changes and costs nothing.
        """
        started = self.start(action, arguments)
        if started.waits and wait_s:
            with self._changed:
                self._changed.wait_for(lambda: self.is_settled, wait_s)
        return self.outcome_of(started)

    def start(self, action: str, arguments: Mapping[str, Any]) -> StartedAction:
        """Do an action without waiting for what it starts; ``outcome_of`` then returns its outcome."""
        given = parse_arguments(action, arguments)
        with self._changed:
            self._require_playable()
            self.last_used = monotonic()
            match action:
                case "write":
                    return self._write(**given)
                case "submit":
                    return self._submit(**given)
                case "look":
                    return StartedAction("", given["step"], waits=True)
                case _:
                    return self._finish()

    def outcome_of(self, started: StartedAction) -> Outcome:
        """Return the outcome of an action, with the rewards since the action before."""
        with self._changed:
            self._require_playable()
            self.last_used = monotonic()
            text = started.text
            if started.waits and (self.is_idle or started.step is not None):
                text = self._report(started.step or 0)
            worth = self.worth
            rewards, self._last_worth = worth.gain_over(self._last_worth), worth
            self.rewards.append(rewards["reward"])
            return Outcome(text, rewards["reward"], self.done, rewards)

    def refusal_outcome(self, why: RequestRefused) -> Outcome:
        """Return a refusal as the outcome of an action."""
        return Outcome(f"Refused: {why}", 0.0, self.done)

    def _write(self, path: str, content: str) -> StartedAction:
        name, written = parse_path(path), encode_content(content)
        files = {**self._files, name: written}
        limits = self.state.opened.task.limits
        if len(files) > limits.checkpoint_files or sum(map(len, files.values())) > limits.checkpoint_mb << 20:
            raise refusal(
                f"the policy would be larger than {limits.checkpoint_files} files or {limits.checkpoint_mb} MiB"
            )
        self._files = files
        return StartedAction(f"{name}: {len(written):,} bytes written.")

    def _submit(self, episodes: int | None, first_case: int) -> StartedAction:
        require_submissions(self.state)
        if episodes is None:
            episodes = min(max(1, self.state.budget // 8), self.state.remaining)
        request = SubmitRequest(case_range(episodes, first_case))
        charge = charge_of(self.state, request)
        state = self._record(charge_event(self.state, charge, self._checkpoint(), request))
        submission = state.submissions[-1]
        self._enqueue(lambda executor: self._load(executor, submission))
        return StartedAction(
            f"Submission {submission.index} is charged and being played; look for its result.", waits=True
        )

    def _finish(self) -> StartedAction:
        if self.state.takes_submissions:
            self._record(FinishAsked(now()))
        self._advance()
        return StartedAction("Finished; the score is being determined.", waits=True)

    # For trainers.

    @property
    def done(self) -> bool:
        """Whether the session is scored."""
        return self.state.stage is Stage.FINISHED

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it is being played, or waits to be."""
        if self.state.stage is not Stage.OPEN:
            return self.done
        evaluated = all(evaluation.is_played for evaluation in self._evaluations.values())
        return not self.state.playing and evaluated and self.state.takes_submissions

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to wait for: it is idle, or it can't go on."""
        return self.is_idle or self.closed or self.fault is not None

    @contextmanager
    def notifying(self, notice: Callable[[], None]) -> Iterator[None]:
        """Call ``notice`` after every change, on any thread, while the context lasts."""
        with self._changed:
            self._watchers.append(notice)
        try:
            yield
        finally:
            with self._changed:
                self._watchers.remove(notice)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until nothing of it is being played; return whether that is so. Raises its fault, if any."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_settled, seconds)
            self._require_playable()
            return self.is_idle

    @property
    def worth(self) -> Worth:
        """What the session is worth now."""
        with self._changed:
            means = {
                checkpoint: mean
                for (split, checkpoint), evaluation in self._evaluations.items()
                if split is Split.VALIDATION and (mean := evaluation.mean) is not None
            }
            return self.rule.worth(self.state, self.scale, means)

    @property
    def document(self) -> dict[str, Any]:
        """What is known of it, for whoever trains; nothing of it is for the agent."""
        with self._changed:
            state, worth = self.state, self.worth
            return {
                "session": self.id,
                **self.drawn.document,
                "episodes_spent": state.spent,
                "submissions": [
                    feedback.summary(state, each, each.published) for each in state.submissions if each.published
                ],
                "done": self.done,
                "score": state.finished.score if state.finished else None,
                "normalised": worth.held_out if self.done else None,
                "scale": {"low": self.scale.low, "best": self.scale.best, "source": self.scale.source},
                "worth": {name: getattr(worth, name) for name in ("train", "validation", "held_out", "cost", "value")},
                "rewards": list(self.rewards),
            }

    def close(self) -> None:
        """Drop what is not played yet, and remove its files but for its event log."""
        with self._changed:
            if self.closed:
                return
            self.closed = True
            self._pool.discard(self.id)
            if self._journal:
                self._journal.close()
            self._notify()
        shutil.rmtree(self._place, ignore_errors=True)

    # Play.

    def _notify(self) -> None:
        """Wake whoever waits; the lock is held."""
        self._changed.notify_all()
        for notice in self._watchers:
            notice()

    def _require_playable(self) -> None:
        if self.fault is not None:
            raise self.fault
        if self.closed:
            raise RequestRefused(RefusalStatus.CLOSED, "The session is closed.", 410)

    def _logged(self, event: Event) -> Event:
        """Return an event as it is recorded, after it was written to the log, if there is one."""
        if self._journal:
            event = normalize_event(event)
            self._journal.append(event, flush=False)
        return event

    def _record(self, event: Event) -> RunState:
        self.state = after(self.state, self._logged(event))
        return self.state

    def _checkpoint(self) -> str:
        """Put the files where workers find them; return their name, as that of any checkpoint."""
        name = checkpoint_name(
            {path: (len(content), sha256(content).hexdigest()) for path, content in self._files.items()}
        )
        if not (target := self._place / name).exists():
            for path, content in self._files.items():
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (target / path).write_bytes(content)
        return name

    def _enqueue(self, play: Callable[[Executor], None]) -> None:
        self._pool.enqueue(self.id, self.drawn.task.environment, play, self._fail)

    def _fail(self, error: EvoPolicyGymError) -> None:
        with self._changed:
            self.fault = self.fault or error
            self._notify()

    def _load(self, executor: Executor, submission: SubmissionState) -> None:
        context = self.state.context(submission)
        if error := executor.load(self._place / submission.charged.checkpoint, context):
            self._publish(submission.index, error)
            return
        trace = self._trace(submission.index)
        jobs = [
            self._builder.job(
                Split.TRAIN,
                case,
                local,
                None if local else trace,
                Recording.OUTPUT if local else Recording.TRAJECTORY,
            )
            for local, case in enumerate(submission.charged.env_instances)
        ]

        def played(position: int, episode: Episode) -> None:
            checkpoint = submission.charged.checkpoint
            state = self._record(EpisodePlayed(Split.TRAIN, checkpoint, position, episode, submission.index))
            if not state.submissions[submission.index].missing:
                self._publish(submission.index, None)

        self._enqueue_episodes(Split.TRAIN, submission.charged.checkpoint, context, jobs, played)

    def _enqueue_episodes(
        self,
        split: Split,
        checkpoint: str,
        context: PolicyContext,
        jobs: Sequence[EpisodeJob],
        played: Callable[[int, Episode], None],
    ) -> None:
        """Have jobs played, a few at a time; ``played`` is called with the lock held."""

        def play(executor: Executor, some: Sequence[EpisodeJob]) -> None:
            def repeated(_: Rollout, job: EpisodeJob, message: str) -> None:
                with self._changed:
                    self._record(EpisodeRepeated(now(), split, job.position, message))

            rollout = Rollout(self._place / checkpoint, context, some)
            for _, job, episode in executor.play([rollout], repeated):
                with self._changed:
                    if self.closed:
                        return
                    played(job.position, episode)

        count = max(1, min(AT_ONCE, len(jobs) // self._pool.workers))
        for first in range(0, len(jobs), count):
            some = jobs[first : first + count]
            self._enqueue(lambda executor, some=some: play(executor, some))  # type: ignore[misc] # bound now

    def _publish(self, index: int, error: LoadError | None) -> None:
        with self._changed:
            if self.closed:
                return
            status = error.status if error else SubmissionStatus.OK
            state = self._record(SubmissionPublished(now(), index, status, "", 0.0, error))
            if index:
                shutil.rmtree(self._trace(index - 1), ignore_errors=True)
            if error is None and self.rule.needs_validation:
                self._evaluate(Split.VALIDATION, state.submissions[index].charged.checkpoint)
            self._advance()

    def _evaluate(self, split: Split, checkpoint: str) -> _Evaluation:
        """Return a checkpoint's hidden episodes; the first time, have them played."""
        if known := self._evaluations.get((split, checkpoint)):
            return known
        evaluation = _Evaluation([None] * self.state.cases(split))
        self._evaluations[split, checkpoint] = evaluation
        jobs = [
            self._builder.job(split, index, index, None, Recording.OUTPUT) for index in range(len(evaluation.episodes))
        ]

        def played(position: int, episode: Episode) -> None:
            evaluation.episodes[position] = episode
            if evaluation.is_played:
                self._advance()

        context = self.state.context(self.state.first_with(checkpoint))
        self._enqueue_episodes(split, checkpoint, context, jobs, played)
        return evaluation

    def _advance(self) -> None:
        """Go as far towards the score as what was played allows; the lock is held."""
        state = self.state
        if state.stage is Stage.OPEN and not state.takes_submissions and not state.playing:
            self._record(RunClosed(now(), state.close_reason))
        if self.state.stage is Stage.CLOSED and self._evaluated(Split.VALIDATION, self.state.promising):
            self._record(selection(self.state))
        chosen = self.state.selected
        if self.state.stage is Stage.SELECTED and chosen and self._evaluated(Split.HELD_OUT, (chosen.checkpoint,)):
            self._record(scoring(self.state))
        self._notify()

    def _evaluated(self, split: Split, checkpoints: Sequence[str]) -> bool:
        """Have checkpoints play a hidden split; once all have, record their episodes and return True."""
        evaluations = [self._evaluate(split, checkpoint) for checkpoint in checkpoints]
        if not all(evaluation.is_played for evaluation in evaluations):
            return False
        for checkpoint, evaluation in zip(checkpoints, evaluations, strict=True):
            for position, episode in enumerate(evaluation.episodes):
                if episode is not None:
                    self._record(EpisodePlayed(split, checkpoint, position, episode))
        return True

    def _report(self, step: int) -> str:
        text = describe_submissions(self.state, self._trace, step)
        return text if self.state.submissions else f"{self.task}\n{text}"

    def _trace(self, index: int) -> Path:
        return self._place / f"episode-{index}"


def _interface_of(drawn: DrawnTask) -> InterfaceDraw | None:
    level = drawn.task.interface
    if level is TaskInterface.STANDARD:
        return None
    return InterfaceDraw(level.value, interface_key(drawn.secret, drawn.task.environment.name))


def _opening(drawn: DrawnTask, info: ExecutorInfo, builder: EpisodeJobBuilder, name: str) -> RunOpened:
    """Return the first event of a session."""
    spec, secret = drawn.task.environment, drawn.secret
    schemas = dict(info.observation_schema), dict(info.action_schema)
    interface: Mapping[str, Any] = {}
    if draw := builder.interface:
        interface = draw_interface(draw.key, draw.level, *schemas, spec.reward_components)
        schemas = shown_schemas(interface)
    return RunOpened(
        time=now(),
        run_id=name,
        protocol_version=PROTOCOL_VERSION,
        task=drawn.task,
        agent=AGENT,
        seed=0,
        split=SplitSource.PRIVATE,
        experiment=f"training-{drawn.split.value}-{drawn.seed}",
        commitment=cases.commitment(builder.cases, cases.salt(secret, spec.name)),
        versions=info.versions,
        spec_sha256=spec_sha256(spec),
        isolation=info.isolation,
        findings=info.findings,
        observation_schema=schemas[0],
        action_schema=schemas[1],
        simulator_code=info.simulator_code,
        interface=interface,
        evopolicygym_version=__version__,
    )
