"""The session of one open run: it accepts submissions, charges them and plays them.

Requests arrive on any thread and are accepted one at a time; one thread plays. A submission is charged, loaded, played,
filmed and published. No code of the agent runs before the charge is on disk, and from then on the submission costs all
of its episodes. Each step is recorded before its effect, so that an interrupted submission can be continued. After the
last submission, ``finalize`` selects and scores.
"""

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Self

from evopolicygym.core import regular_file
from evopolicygym.core.agent import NO_RULES, AgentRules, Turn
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError, RefusalStatus, RequestRefused, StorageError
from evopolicygym.core.event import (
    AgentEnded,
    AgentMetered,
    AgentStarted,
    FinishAsked,
    PolicyRestored,
    RunClosed,
    SubmissionCharged,
    SubmissionPublished,
)
from evopolicygym.core.rollout import EpisodeJob, Recording, Trial
from evopolicygym.core.run import RunState, SubmissionState
from evopolicygym.core.submission import LoadError, Setting, SubmissionStatus, parse_env_instances, parse_films
from evopolicygym.core.task import Memory
from evopolicygym.core.text import now
from evopolicygym.judge import feedback
from evopolicygym.judge.films import FilmReply, make_films, stills_of
from evopolicygym.judge.request import SubmitRequest, parse_parent
from evopolicygym.judge.rollouts import Rollouts, RolloutStopped, Trials
from evopolicygym.records import atomic
from evopolicygym.records.checkpoints import PARTIAL_PREFIX
from evopolicygym.records.feedback import publish
from evopolicygym.records.paths import EPISODES, episode_name
from evopolicygym.records.writer import RunWriter

Capture = Callable[[Mapping[str, Setting]], str]
"""Copies the workspace's policy to a checkpoint, with the given parameters set, and returns the checkpoint's name.

Raises ``RequestRefused`` if that fails.
"""
CLOSED_MESSAGE = "The run is closed: no more submissions are accepted."


@dataclass(frozen=True, slots=True)
class Charge:
    """A validated submission, ready to be charged."""

    indices: tuple[int, ...]
    films: tuple[int, ...]
    parent: int | None


def charge_of(state: RunState, request: SubmitRequest) -> Charge:
    """Check a request against what its agent may know of a run; raise ``RequestRefused`` where it breaks a rule."""
    task, shown = state.opened.task, feedback.visible(state)
    indices = parse_env_instances(request.env_instances, task.train_cases, task.budget.most)
    task.budget.check(len(indices), shown.remaining)
    films = parse_films(request.films, indices, task.train_cases, task.films, shown.films_left)
    parent = parse_parent(request.parent, len(shown.submissions))
    return Charge(indices, films, state.restored if parent is None else parent)


def charge_event(state: RunState, charge: Charge, checkpoint: str, request: SubmitRequest) -> SubmissionCharged:
    """Return the event that charges a run's next submission."""
    return SubmissionCharged(
        time=now(),
        submit_index=len(state.submissions),
        checkpoint=checkpoint,
        env_instances=charge.indices,
        key=request.key,
        films=charge.films,
        settings=dict(request.settings),
        parent=charge.parent,
        hypothesis=request.hypothesis,
    )


def require_submissions(state: RunState) -> None:
    """Raise ``RequestRefused`` if a run accepts no more submissions."""
    if state.submissions_left == 0:
        most = state.opened.task.budget.max_submissions
        message = f"The run is closed: all {most} submissions were made; nothing was charged."
        raise RequestRefused(RefusalStatus.CLOSED, message, 409)
    if state.conversation_is_over:
        message = "The run is closed: it takes 1 submission, and it was made; nothing was charged."
        raise RequestRefused(RefusalStatus.CLOSED, message, 409)
    if not state.takes_submissions:
        raise RequestRefused(RefusalStatus.CLOSED, CLOSED_MESSAGE, 409)


def record_charge(writer: RunWriter, charge: Charge, checkpoint: str, request: SubmitRequest) -> SubmissionState:
    """Write a charge to disk. If it can't be written, nothing is charged and no episode starts.

    Raises ``StorageError`` if the charge is written but the rollback guard isn't; then nothing may act on the charge.
    """
    try:
        state = writer.record(charge_event(writer.state, charge, checkpoint, request))
    except OSError as error:
        raise not_stored() from error
    return state.submissions[-1]


def forget_checkpoint(writer: RunWriter, checkpoint: str) -> None:
    """Remove a checkpoint that was not charged, unless a submission uses it, so that refusals don't fill the disk."""
    if all(submission.charged.checkpoint != checkpoint for submission in writer.state.submissions):
        path = writer.paths.checkpoint(checkpoint)
        removed = path.with_name(f"{PARTIAL_PREFIX}{checkpoint}")  # a partly removed checkpoint must not keep its name
        with suppress(OSError):
            atomic.rename(path, removed)
        shutil.rmtree(removed, ignore_errors=True)


def not_stored() -> RequestRefused:
    """Return the refusal of a request that can't be stored, for example because the disk is full."""
    message = "The request can't be stored now; nothing was charged. Ask again later."
    return RequestRefused(RefusalStatus.UNAVAILABLE, message, 503)


def play_submission(rollouts: Rollouts, submission: SubmissionState) -> None:
    """Load the policy, play all missing episodes, make the requested films, and publish the feedback."""
    began = monotonic()
    context = rollouts.writer.state.context(submission)
    checkpoint = submission.charged.checkpoint
    error = None
    if len(submission.missing) == len(submission.episodes):
        # Left by an interrupted attempt, of which nothing was recorded.
        shutil.rmtree(rollouts.writer.paths.staged_feedback(submission.index), ignore_errors=True)
        error = rollouts.executor.load(rollouts.writer.paths.checkpoint(checkpoint), context)
    if error is None:
        rollout = rollouts.rollout(checkpoint, context, _jobs(rollouts, submission))
        rollouts.play(Split.TRAIN, [rollout], submission)
    seconds = monotonic() - began
    films = make_films(rollouts, rollouts.writer.state.submissions[submission.index]) if error is None else ()
    _publish(rollouts.writer, submission.index, error, seconds, films)


def _jobs(rollouts: Rollouts, submission: SubmissionState) -> list[EpisodeJob]:
    state = rollouts.writer.state
    episodes = rollouts.writer.paths.staged_feedback(submission.index) / EPISODES
    episodes.mkdir(parents=True, exist_ok=True)
    shown = state.opened.task.feedback.shows_episodes
    return [
        rollouts.job_builder.job(
            Split.TRAIN,
            submission.charged.env_instances[local],
            local,
            episodes / episode_name(submission.first_global_episode + local) if shown else None,
            Recording.TRAJECTORY,
        )
        for local in submission.missing
    ]


def _publish(
    writer: RunWriter, index: int, error: LoadError | None, seconds: float, films: tuple[FilmReply, ...]
) -> None:
    """Write the summary, record that the feedback is complete, and only then move it into the workspace."""
    status = error.status if error else SubmissionStatus.OK
    filmed = sum(request.film is not None for request in films)
    published = SubmissionPublished(now(), index, status, "", round(seconds, 3), error, filmed)
    feedback.write_summary(writer.paths, writer.state, index, published, films)
    writer.record(replace(published, feedback_sha256=writer.seal(writer.paths.staged_feedback(index))))
    publish(writer.paths, index)


PLAYER_GRACE_S = 3.0
"""Seconds that the current episode has to end after the session is stopped."""

POLL_S = 60.0
"""The longest wait for the end between two calls of ``poll``."""


class JudgeSession:
    """One open run."""

    def __init__(
        self,
        rollouts: Rollouts,
        capture: Capture,
        deliver: Callable[[int], object] = lambda _: None,
        rules: AgentRules = NO_RULES,
    ) -> None:
        """Continue a run from its event log; interrupted submissions start to play at once.

        ``deliver`` is called with the index of each submission whose feedback is recorded, and sends it to an agent
        that reads it elsewhere. ``rules`` restrict the agent in addition to its allowance.
        """
        self.rules = rules
        self.rollouts = rollouts
        self.writer = rollouts.writer
        self._capture, self._deliver = capture, deliver
        self._accepting = threading.Lock()
        self._trying = threading.Lock()
        self.trials = Trials()
        self._changed = threading.Condition(threading.RLock())
        self._awaited: dict[int, Future[None]] = {}
        self._in_place: set[int] = set()
        """Submissions whose feedback has been in the workspace; the agent may have removed it since."""
        self.fault: BaseException | None = None
        """The error that stopped the run, such as a failed simulator; None if there was none."""
        for submission in self.state.submissions:
            if submission.published:  # the process may have died before the feedback was moved
                publish(self.writer.paths, submission.index)
                deliver(submission.index)
                self._in_place.add(submission.index)
        self._player = threading.Thread(target=self._play, name="player", daemon=True)
        self._player.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def state(self) -> RunState:
        """The current state of the run."""
        return self.writer.state

    def accept(self, request: SubmitRequest) -> SubmissionState:
        """Check a request, take the checkpoint and charge. If ``RequestRefused`` is raised, nothing was charged.

        A request with a known key returns the submission of that key.
        """
        with self._accepting:
            request = self._scope_key(request)
            if known := self.state.by_key(request.key):
                return known
            self._require_open()
            charge_of(self.state, request)
            try:
                checkpoint = self._capture(request.settings)  # slow, so the lock of readers is not held
            except OSError as error:
                raise not_stored() from error
            try:
                with self._changed:
                    self._require_open()
                    with self._fail_run_on_storage_error():
                        charged = record_charge(self.writer, charge_of(self.state, request), checkpoint, request)
                    self._changed.notify_all()
            except RequestRefused:
                forget_checkpoint(self.writer, checkpoint)
                raise
            return charged

    def _scope_key(self, request: SubmitRequest) -> SubmitRequest:
        """Return a request whose key, of independent samples, names no submission of another conversation."""
        if not request.key or self.state.opened.task.memory is Memory.FULL:
            return request
        return replace(request, key=f"{self.state.conversation_start}:{request.key}")

    def try_policy(self, settings: Mapping[str, Setting]) -> Trial:
        """Construct the workspace's policy in its sandbox, with the given parameters set, and have it act once.

        This is free, and no case is played. Raises ``RequestRefused`` if the run accepts no submissions or no more
        trials, or if no checkpoint can be taken.
        """
        with self._trying:
            with self._accepting:
                self._require_open()
                self.trials.take_one()
                try:
                    checkpoint = self._capture(settings)
                except OSError as error:
                    raise not_stored() from error
            try:
                with self._changed:
                    self._require_open()
                    trial = self.trials.ask(checkpoint)
                    self._changed.notify_all()
                return trial.result()
            finally:
                with self._accepting:
                    forget_checkpoint(self.writer, checkpoint)

    def policy_of(self, submit_index: int) -> dict[str, bytes]:
        """Return the files of a submission's policy, keyed by their paths in ``system/``."""
        checkpoint = self.writer.paths.checkpoint(self.state.submissions[submit_index].charged.checkpoint)
        files = regular_file.below(checkpoint, self.writer.paths.root)
        return {
            path.relative_to(checkpoint).as_posix(): regular_file.read(path, size, checkpoint) for path, size in files
        }

    def restore_policy(self, submit_index: int) -> dict[str, bytes]:
        """Return the files of a submission's policy and record it as the parent of the next submission.

        Raises ``RequestRefused`` if the run accepts no submissions, or too many policies were restored.
        """
        with self._changed:
            self._require_open()
            if self.state.restored != submit_index:
                self.trials.count_restored()
                try:
                    with self._fail_run_on_storage_error():
                        self.writer.record(PolicyRestored(now(), submit_index))
                except OSError as error:
                    raise not_stored() from error
        return self.policy_of(submit_index)

    def frames(self, submit_index: int, position: int, steps: Sequence[int]) -> Mapping[int, bytes]:
        """Return frames of an episode's film as PNG files, keyed by step; counts as a trial.

        Raises ``RequestRefused`` if there is no such film or frame.
        """
        with self._trying:
            self.trials.take_one()
            return stills_of(self.writer.paths, self.state.submissions[submit_index], position, steps)

    def published(self, submit_index: int) -> "Future[None]":
        """Return a future that is done when a submission's feedback is in place, or fails if the run is stopped."""
        with self._changed:
            future = self._awaited.setdefault(submit_index, Future())
            self._resolve()
            return future

    def finish(self) -> None:
        """End the run with budget left, on the agent's request; raise ``RequestRefused`` if that is not allowed."""
        with self._changed:
            self._require_open()
            if not self.state.opened.task.finish_allowed:
                raise RequestRefused(
                    RefusalStatus.INVALID_REQUEST,
                    f"This run ends when its budget is spent; {self.state.remaining} episodes are left.",
                )
            try:
                with self._fail_run_on_storage_error():
                    self.writer.record(FinishAsked(now()))
            except OSError as error:
                raise not_stored() from error
            self._changed.notify_all()

    @contextmanager
    def _fail_run_on_storage_error(self) -> Iterator[None]:
        """Stop the run if an event is recorded but the rollback guard isn't; resuming the run acts on the event."""
        try:
            yield
        except StorageError as error:
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """Stop the run by an error, which is raised where the run is awaited."""
        self.fault = error
        self._notify()

    @property
    def done(self) -> bool:
        """Whether the run accepts no more submissions and nothing is playing, or it was stopped by a fault."""
        return self.fault is not None or (not self.state.takes_submissions and self._idle)

    @property
    def _idle(self) -> bool:
        """Whether the feedback of every submission is in place."""
        return all(self.in_place(submission) for submission in self.state.submissions)

    @property
    def _conversation_is_done(self) -> bool:
        """Whether the agent's conversation has made its only submission, and it was played."""
        return self.state.conversation_is_over and self._idle

    def in_place(self, submission: SubmissionState) -> bool:
        """Return whether a submission's feedback was moved into the workspace, which follows its recording.

        Remains true if the agent removes the feedback.
        """
        return submission.published is not None and submission.index in self._in_place

    def wait_for_end(self, agent: "Future[Turn]", poll: Callable[[], float] = lambda: POLL_S) -> None:
        """Wait until the run is ``done`` or the agent's turn has ended.

        ``poll`` returns after how many seconds to call it again; 0 ends the wait.
        """
        agent.add_done_callback(lambda _: self._notify())
        while wait_s := poll():
            with self._changed:
                if self._changed.wait_for(lambda: self.done or self._conversation_is_done or agent.done(), wait_s):
                    return

    def wait_until_idle(self) -> None:
        """Wait until the feedback of all submissions is in place; raise what stopped the run."""
        with self._changed:
            self._changed.wait_for(lambda: self._idle or self.fault is not None)
        self.raise_fault()

    def turn_started(self, turn: int) -> None:
        """Record that a turn of the agent begins."""
        if self.state.opened.task.memory is Memory.NONE:
            self.trials = Trials()  # how many there were before is not for it to know
        self.writer.record(AgentStarted(now(), turn))

    def turn_metered(self, turn: int, seconds: float, usage: Mapping[str, float], *, flush: bool) -> None:
        """Record the usage of the current turn so far; with ``flush`` it survives a crash of the machine."""
        self.writer.record(AgentMetered(now(), turn, seconds, usage), flush=flush)

    def turn_ended(self, turn: int, outcome: Turn, seconds: float = 0.0) -> None:
        """Record how a turn of the agent ended."""
        self.writer.record(
            AgentEnded(
                now(),
                turn,
                outcome.end.value,
                outcome.message,
                outcome.findings,
                outcome.usage,
                outcome.tool_usage,
                seconds,
            )
        )

    def close(self) -> None:
        """Close the run once all charged submissions have been played. The agent must have ended."""
        with self._changed:
            self.wait_until_idle()
            self.writer.record(RunClosed(now(), self.state.close_reason))

    def stop(self) -> None:
        """Stop playing; resuming the run continues what is unfinished.

        An episode that doesn't end in time is abandoned; its thread can no longer write.
        """
        with self._changed:
            self.rollouts.stop.set()
            self._changed.notify_all()
        self._player.join(PLAYER_GRACE_S)

    def raise_fault(self) -> None:
        """Raise the error that stopped the run, if there was one."""
        if self.fault is not None:
            raise self.fault

    def progress(self, submission: SubmissionState) -> dict[str, Any]:
        """Return how many of a submission's episodes were played, and how many submissions are ahead of it."""
        ahead = sum(other.index < submission.index for other in self.state.playing)
        played = len(submission.episodes) - len(submission.missing)
        return {"played": played, "of": len(submission.episodes), "ahead": 0 if submission.published else ahead}

    @property
    def _stopping(self) -> bool:
        return self.fault is not None or self.rollouts.stop.is_set()

    def _require_open(self) -> None:
        if self.fault is not None:
            raise RequestRefused(RefusalStatus.UNAVAILABLE, "The run was stopped by a fault on the judge's side.", 503)
        require_submissions(self.state)
        if self.rollouts.stop.is_set():
            raise RequestRefused(RefusalStatus.CLOSED, CLOSED_MESSAGE, 409)

    def _play(self) -> None:
        """Play charged submissions, one after another, until the session stops."""
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping or self.trials or self.state.playing)
                    if self._stopping:
                        return
                if not self.state.playing:  # charged submissions go first
                    self.trials.play(self.rollouts)
                    continue
                submission = self.state.playing[0]
                with suppress(RolloutStopped):
                    play_submission(self.rollouts, submission)
                    self._deliver(submission.index)
                    self._in_place.add(submission.index)
                self._notify()
        except BaseException as error:  # noqa: BLE001 - raised where the run is awaited
            self.fail(error)
        finally:
            with self._changed:
                self.trials.abort(RecordError("the run was stopped"))

    def _notify(self) -> None:
        with self._changed:
            self._resolve()
            self._changed.notify_all()

    def _resolve(self) -> None:
        for index, future in list(self._awaited.items()):
            if self.in_place(self.state.submissions[index]):
                del self._awaited[index]
                future.set_result(None)
            elif self.fault is not None:
                del self._awaited[index]
                future.set_exception(RecordError("the run was stopped"))
