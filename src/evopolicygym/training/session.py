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
from itertools import islice
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import Any

from evopolicygym.analysis.ranking.known_scale import KnownScale
from evopolicygym.core import cases, regular_file
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
from evopolicygym.core.rollout import Episode, EpisodeJob, Executor, ExecutorInfo, Recording
from evopolicygym.core.run import RunState, Stage, SubmissionState, after
from evopolicygym.core.score import total
from evopolicygym.core.spaces import from_schema
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.submission import LoadError, SubmissionStatus
from evopolicygym.core.task import PolicyContext, TaskInterface
from evopolicygym.core.text import now, number
from evopolicygym.judge import feedback
from evopolicygym.judge.request import SubmitRequest
from evopolicygym.judge.rollouts import EpisodeJobBuilder, scoring, selection
from evopolicygym.judge.session import charge_event, charge_of, require_submissions
from evopolicygym.records import task_text
from evopolicygym.records.checkpoints import checkpoint_name
from evopolicygym.records.journal import Journal, normalize_event
from evopolicygym.records.trajectories import Step, read_steps
from evopolicygym.rollout.checkpoint import MAX_DEPTH, MAX_NAME_BYTES, POLICY_FILE
from evopolicygym.runs.anchors import starter_policy
from evopolicygym.specs.catalog import spec_sha256
from evopolicygym.training.draw import DrawnTask
from evopolicygym.training.pool import Pool
from evopolicygym.training.rewards import RewardRule, Worth
from evopolicygym.version import __version__

AGENT = AgentConfig("training")
AT_ONCE = 4
"""Episodes of a submission that one worker plays in turn before it looks after other sessions."""
MOST_PRINTED = 1 << 20
"""The largest file of an output that is read."""
SHOWN_STEPS, SHOWN_OUTPUT, SHOWN_VALUE = 8, 600, 240
"""Steps of an episode that ``look`` shows, and the most characters of an output and of an observation."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a tool."""

    kind: str
    """``string`` or ``integer``, as JSON Schema has it."""
    meaning: str
    needed: bool = False
    default: int | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """An action of an agent."""

    meaning: str
    arguments: Mapping[str, Argument]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return {
            "type": "object",
            "properties": {
                name: {"type": each.kind, "description": each.meaning} for name, each in self.arguments.items()
            },
            "required": [name for name, each in self.arguments.items() if each.needed],
            "additionalProperties": False,
        }


TOOLS: Mapping[str, Tool] = {
    "write": Tool(
        "Write a file of the policy; it replaces the file of that name.",
        {
            "path": Argument("string", "The file's path, such as policy.py.", needed=True),
            "content": Argument("string", "Its whole content.", needed=True),
        },
    ),
    "submit": Tool(
        "Play the policy for some train episodes of the budget.",
        {
            "episodes": Argument("integer", "How many; by default an eighth of the budget."),
            "first_case": Argument("integer", "The first of the train cases, from 0.", default=0),
        },
    ),
    "look": Tool(
        "See what the submissions returned, and some steps of the latest one's first episode.",
        {"step": Argument("integer", "The first step to see, from 0.", default=0)},
    ),
    "finish": Tool("End here: the best submission is selected and scored on hidden cases.", {}),
}
"""What an agent can do, by name."""
ACTIONS = (
    "Write `policy.py`, submit it for a few episodes, look at what came of it, and write a better one. Your tools:\n\n"
    + "\n".join(f"- `{name}({', '.join(tool.arguments)})`: {tool.meaning}" for name, tool in TOOLS.items())
    + "\n\nThe starter policy, which is there now, plays at random.\n"
)


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


def joined(outcomes: Sequence[Outcome]) -> Outcome:
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
class Begun:
    """An action that was done, while what it started may still be played."""

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
        grounds: ExecutorInfo,
        scale: KnownScale,
        rule: RewardRule,
    ) -> None:
        """Open a session. ``grounds`` are the pool's for this task."""
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
        self.state = after(None, self._normal(_opening(drawn, grounds, self._builder, self.id)))
        self._files: dict[str, bytes] = starter_policy()
        self._evaluations: dict[tuple[Split, str], _Evaluation] = {}
        self._given = Worth()
        self.rewards: list[float] = []
        """The rewards that were given so far."""
        self.fault: EvoPolicyGymError | None = None
        """Why the session can't go on; None if it can."""
        self.closed = False
        self.used = monotonic()
        """When its agent last acted."""
        self._watchers: list[Callable[[], None]] = []

    def keep(self, log: Path) -> None:
        """Keep its event log in a new file from now on; call it before anything else."""
        self._journal = Journal(log)
        self._journal.append(self.state.opened, flush=False)

    # What the agent does.

    @property
    def task(self) -> str:
        """What the agent reads first."""
        return f"{task_text.task_text(self.state, has_workspace=False)}\n## What you do\n\n{ACTIONS}"

    def act(self, action: str, arguments: Mapping[str, Any], wait_s: float = 0.0) -> Outcome:
        """Do one of the actions of ``TOOLS``, wait for what is played up to so many seconds, and tell what came of it.

        Raises ``RequestRefused`` for an invalid action, which changes and costs nothing.
        """
        said = self.begin(action, arguments)
        if said.waits and wait_s:
            with self._changed:
                self._changed.wait_for(lambda: self.is_settled, wait_s)
        return self.tell(said)

    def begin(self, action: str, arguments: Mapping[str, Any]) -> "Begun":
        """Do an action without waiting for what is played; ``tell`` then says what came of it."""
        given = _arguments(action, arguments)
        with self._changed:
            self._require_sound()
            self.used = monotonic()
            match action:
                case "write":
                    return self._write(**given)
                case "submit":
                    return self._submit(**given)
                case "look":
                    return Begun("", given["step"], waits=True)
                case _:
                    return self._finish()

    def tell(self, begun: "Begun") -> Outcome:
        """Tell what came of an action, with the rewards since the action before."""
        with self._changed:
            self._require_sound()
            self.used = monotonic()
            text = begun.text
            if begun.waits and (self.is_idle or begun.step is not None):
                text = self._report(begun.step or 0)
            worth = self.worth
            rewards, self._given = worth.gain_over(self._given), worth
            self.rewards.append(rewards["reward"])
            return Outcome(text, rewards["reward"], self.done, rewards)

    def refused(self, why: RequestRefused) -> Outcome:
        """Return a refusal as the outcome of an action."""
        return Outcome(f"Refused: {why}", 0.0, self.done)

    def _write(self, path: str, content: str) -> "Begun":
        name, written = _path(path), _content(content)
        files = {**self._files, name: written}
        limits = self.state.opened.task.limits
        if len(files) > limits.checkpoint_files or sum(map(len, files.values())) > limits.checkpoint_mb << 20:
            raise _refused(
                f"the policy would be larger than {limits.checkpoint_files} files or {limits.checkpoint_mb} MiB"
            )
        self._files = files
        return Begun(f"{name}: {len(written):,} bytes written.")

    def _submit(self, episodes: int | None, first_case: int) -> "Begun":
        require_submissions(self.state)
        if episodes is None:
            episodes = min(max(1, self.state.budget // 8), self.state.remaining)
        request = SubmitRequest(_cases(episodes, first_case))
        charge = charge_of(self.state, request)
        state = self._record(charge_event(self.state, charge, self._checkpoint(), request))
        submission = state.submissions[-1]
        self._ask(lambda executor: self._load(executor, submission))
        return Begun(f"Submission {submission.index} is charged and being played; look for its result.", waits=True)

    def _finish(self) -> "Begun":
        if self.state.takes_submissions:
            self._record(FinishAsked(now()))
        self._advance()
        return Begun("Finished; the score is being determined.", waits=True)

    # What trainers ask.

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
    def watched(self, notice: Callable[[], None]) -> Iterator[None]:
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
            self._require_sound()
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
            self._pool.forget(self.id)
            if self._journal:
                self._journal.close()
            self._notify()
        shutil.rmtree(self._place, ignore_errors=True)

    # How it is played.

    def _notify(self) -> None:
        """Wake whoever waits; the lock is held."""
        self._changed.notify_all()
        for notice in self._watchers:
            notice()

    def _require_sound(self) -> None:
        if self.fault is not None:
            raise self.fault
        if self.closed:
            raise RequestRefused(RefusalStatus.CLOSED, "The session is closed.", 410)

    def _normal(self, event: Event) -> Event:
        """Return an event as it is recorded, after it was written to the log, if there is one."""
        if self._journal:
            event = normalize_event(event)
            self._journal.append(event, flush=False)
        return event

    def _record(self, event: Event) -> RunState:
        self.state = after(self.state, self._normal(event))
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

    def _ask(self, play: Callable[[Executor], None]) -> None:
        self._pool.ask(self.id, self.drawn.task.environment, play, self._fail)

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

        self._ask_episodes(Split.TRAIN, submission.charged.checkpoint, context, jobs, played)

    def _ask_episodes(
        self,
        split: Split,
        checkpoint: str,
        context: PolicyContext,
        jobs: Sequence[EpisodeJob],
        played: Callable[[int, Episode], None],
    ) -> None:
        """Have jobs played, a few at a time; ``played`` is called with the lock held."""

        def play(executor: Executor, some: Sequence[EpisodeJob]) -> None:
            def repeated(job: EpisodeJob, message: str) -> None:
                with self._changed:
                    self._record(EpisodeRepeated(now(), split, job.position, message))

            for job, episode in executor.play(self._place / checkpoint, context, some, repeated):
                with self._changed:
                    if self.closed:
                        return
                    played(job.position, episode)

        count = max(1, min(AT_ONCE, len(jobs) // self._pool.workers))
        for first in range(0, len(jobs), count):
            some = jobs[first : first + count]
            self._ask(lambda executor, some=some: play(executor, some))  # type: ignore[misc] # bound now

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
        if found := self._evaluations.get((split, checkpoint)):
            return found
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
        self._ask_episodes(split, checkpoint, context, jobs, played)
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

    # What the agent is told.

    def _report(self, step: int) -> str:
        state = self.state
        lines = [self._line(each) for each in state.submissions] or [self.task]
        if state.submissions and (latest := state.submissions[-1]).published:
            lines += self._details(latest, step)
        left = f"{state.remaining} of {state.budget} episodes left."
        end = "" if state.takes_submissions else " The session is over." if self.done else " Scoring."
        return "\n".join([*lines, left + end])

    def _line(self, submission: SubmissionState) -> str:
        name = f"submission {submission.index}"
        if submission.published is None:
            return f"{name}: playing, {len(submission.returns)} of {len(submission.episodes)} episodes"
        if submission.load_error:
            return f"{name}: {submission.load_error}"
        returns = ", ".join(map(number, submission.returns[:AT_ONCE]))
        more = ", ..." if len(submission.returns) > AT_ONCE else ""
        failed = f"; {submission.failed} failed" if submission.failed else ""
        return (
            f"{name}: mean return {number(submission.train_mean or 0.0)} of {len(submission.returns)} episodes "
            f"({returns}{more}){failed}"
        )

    def _details(self, submission: SubmissionState, step: int) -> list[str]:
        """Return lines on a submission: why it failed, what it printed, and steps of its first episode."""
        assert submission.published is not None  # noqa: S101 - for the type checker; as the caller checked
        if error := submission.published.error:
            return [_cut(error.traceback or error.message)]
        tracebacks = [each.failure.traceback for each in submission.episodes if each and each.failure]
        lines = [submission.trouble, *map(_cut, tracebacks[:1])] if submission.failed else []
        trace = self._trace(submission.index)
        for name in ("stdout", "stderr"):
            printed = regular_file.read(trace / f"{name}.txt", MOST_PRINTED, trace).decode("utf-8", "replace").strip()
            lines += [f"{name}: {_cut(printed)}"] if printed else []
        lines.append(f"first episode, from step {step} (observation; action; reward):")
        opened = self.state.opened
        spaces = from_schema(opened.observation_schema), from_schema(opened.action_schema)
        steps = read_steps(trace, *spaces)
        shown = islice(steps or (), step, step + SHOWN_STEPS)
        return lines + [_step_text(step + place, each) for place, each in enumerate(shown)]

    def _trace(self, index: int) -> Path:
        return self._place / f"episode-{index}"


def _interface_of(drawn: DrawnTask) -> InterfaceDraw | None:
    level = drawn.task.interface
    if level is TaskInterface.STANDARD:
        return None
    return InterfaceDraw(level.value, interface_key(drawn.secret, drawn.task.environment.name))


def _opening(drawn: DrawnTask, grounds: ExecutorInfo, builder: EpisodeJobBuilder, name: str) -> RunOpened:
    """Return the first event of a session."""
    spec, secret = drawn.task.environment, drawn.secret
    schemas = dict(grounds.observation_schema), dict(grounds.action_schema)
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
        versions=grounds.versions,
        spec_sha256=spec_sha256(spec),
        isolation=grounds.isolation,
        findings=grounds.findings,
        observation_schema=schemas[0],
        action_schema=schemas[1],
        simulator_code=grounds.simulator_code,
        interface=interface,
        evopolicygym_version=__version__,
    )


def _arguments(action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return an action's arguments with their defaults; raise ``RequestRefused`` where one is not as declared."""
    if action not in TOOLS:
        raise _refused(f"there is no action {action[:60]!r}; there are {', '.join(TOOLS)}")
    if not isinstance(arguments, Mapping):
        raise _refused(f"the arguments of {action} must be an object")
    declared = TOOLS[action].arguments
    if unknown := sorted(map(str, arguments.keys() - declared.keys())):
        takes = f"it takes {', '.join(declared)}" if declared else "it takes none"
        raise _refused(f"{action} has no argument {unknown[0][:60]!r}; {takes}")
    if missing := [name for name, each in declared.items() if each.needed and name not in arguments]:
        raise _refused(f"{action} needs {missing[0]}")
    given = {name: arguments.get(name, each.default) for name, each in declared.items()}
    for name, value in given.items():
        if (
            declared[name].kind == "integer"
            and name in arguments
            and (isinstance(value, bool) or not isinstance(value, int))
        ):
            raise _refused(f"{name} must be an integer, not {str(value)[:60]!r}")
    if given.get("step", 0) < 0:
        raise _refused(f"step must be an integer from 0, not {given['step']}")
    return given


def _cases(episodes: int, first_case: int) -> str:
    for name, value, least in (("episodes", episodes, 1), ("first_case", first_case, 0)):
        if not least <= value < 1 << 20:
            raise _refused(f"{name} must be an integer from {least}, not {value}")
    return f"{first_case}-{first_case + episodes - 1}"


def _path(path: str) -> str:
    parts = PurePosixPath(path).parts if isinstance(path, str) else ()
    is_valid = parts and len(parts) <= MAX_DEPTH and ".." not in parts and parts[0] != "/"
    if not is_valid or not path.isprintable() or len(path.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        raise _refused(
            f"path must be a path below the policy's directory, such as {POLICY_FILE}, not {str(path)[:60]!r}"
        )
    return PurePosixPath(path).as_posix()


def _content(content: str) -> bytes:
    try:
        return content.encode("utf-8")
    except (AttributeError, UnicodeEncodeError) as error:
        raise _refused("content must be text in Unicode") from error


def _refused(why: str) -> RequestRefused:
    return RequestRefused(RefusalStatus.INVALID_REQUEST, f"Invalid request: {why}.")


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_OUTPUT else f"...{text[-SHOWN_OUTPUT:]}"


def _step_text(index: int, step: Step) -> str:
    return f"{index}: {_value_text(step.observation)}; {_value_text(step.action)}; {number(step.reward)}"


def _value_text(value: Any) -> str:  # noqa: ANN401 - a value of any space
    text = dumps(_rounded(value))
    return text if len(text) <= SHOWN_VALUE else f"{text[:SHOWN_VALUE]}..."


def _rounded(value: Any) -> Any:  # noqa: ANN401 - as above
    match value:
        case float():
            return float(f"{value:.4g}")
        case list() | tuple():
            return [_rounded(each) for each in value]
        case dict():
            return {name: _rounded(each) for name, each in value.items()}
        case _ if hasattr(value, "tolist"):
            return _rounded(value.tolist())
        case _:
            return value
