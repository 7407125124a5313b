"""A run's state, as a pure fold over the events of its event log.

An event that breaks a rule of the protocol raises ``RecordError``, so that every state is consistent. The judge, resume
and ``verify`` all use this fold.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from evopolicygym.core.agent import AgentEnd, AllowanceUse, used_of
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError, RequestRefused
from evopolicygym.core.event import (
    AgentEnded,
    AgentMetered,
    AgentStarted,
    CheckpointSelected,
    CloseReason,
    EpisodePlayed,
    EpisodeRepeated,
    Event,
    FinishAsked,
    PolicyRestored,
    PostHocPlayed,
    RunClosed,
    RunFinished,
    RunOpened,
    RunResumed,
    RunStatus,
    RunStopped,
    SubmissionCharged,
    SubmissionPublished,
)
from evopolicygym.core.rollout import Episode, HiddenRollout, failures
from evopolicygym.core.score import Candidate, Estimate, estimate, nan_last_key, select
from evopolicygym.core.submission import STARTER, SubmissionStatus, films_fit
from evopolicygym.core.task import Memory, PolicyContext


@dataclass(frozen=True, slots=True)
class SubmissionState:
    """A submission and its results so far."""

    charged: SubmissionCharged
    first_global_episode: int
    remaining_budget: int
    """The budget left after its charge."""
    episodes: tuple[Episode | None, ...]
    """By position; None if not played yet."""
    published: SubmissionPublished | None = None

    @property
    def index(self) -> int:
        """Its number in the run, from 0."""
        return self.charged.submit_index

    @property
    def status(self) -> SubmissionStatus:
        """Its status; ``interrupted`` until its feedback is published."""
        return self.published.status if self.published else SubmissionStatus.INTERRUPTED

    @property
    def missing(self) -> tuple[int, ...]:
        """Local indices of episodes not yet played."""
        return tuple(local for local, episode in enumerate(self.episodes) if episode is None)

    @property
    def returns(self) -> tuple[float, ...]:
        """Returns of the episodes played so far, in the submission's order."""
        return tuple(episode.episode_return for episode in self.episodes if episode)

    @property
    def train(self) -> Estimate | None:
        """The mean return of the episodes played so far; None before the first."""
        return estimate(returns) if (returns := self.returns) else None

    @property
    def train_mean(self) -> float | None:
        """The same without its standard error."""
        return train.mean if (train := self.train) else None

    @property
    def failed(self) -> int:
        """The number of episodes played so far in which the policy failed."""
        return sum(episode is not None and episode.failure is not None for episode in self.episodes)

    @property
    def load_error(self) -> str:
        """Why its policy could not be loaded, in one line; empty if it could."""
        error = self.published.error if self.published else None
        return f"{error.status}: {next(iter(error.message.splitlines()), '')}" if error else ""

    @property
    def trouble(self) -> str:
        """One line: why the policy didn't load, or in how many episodes it failed; empty if neither."""
        trouble = self.load_error or (failures("episodes", self.episodes) if self.failed else "")
        return f"submission {self.index}: {trouble}" if trouble else ""


class Stage(StrEnum):
    """The stage of a run."""

    OPEN = "open"
    """Submissions are accepted."""
    CLOSED = "closed"
    """Candidates play validation."""
    SELECTED = "selected"
    """The selected checkpoint plays held-out."""
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run, as its event log tells."""

    opened: RunOpened
    stage: Stage = Stage.OPEN
    submissions: tuple[SubmissionState, ...] = ()
    hidden: tuple[HiddenRollout, ...] = ()
    turns: int = 0
    """The number of ended turns."""
    pauses: int = 0
    """How many of them ended for a reason outside the agent; these don't count against its limit of turns."""
    ended: AllowanceUse = field(default_factory=AllowanceUse)
    """What the agent used in past turns, including interrupted ones."""
    metered: AgentMetered | None = None
    """The last usage recorded in a turn that has not ended."""
    cut: bool = False
    """Whether the agent was ended because a limit set by the user was reached."""
    restored: int | None = None
    """The submission whose policy was restored since the last submission."""
    finish_asked: FinishAsked | None = None
    closed: RunClosed | None = None
    selected: CheckpointSelected | None = None
    finished: RunFinished | None = None
    program_changes: tuple[RunResumed, ...] = ()
    """Resumptions with a changed program of the agent."""
    conversation_start: int = 0
    """The number of submissions when the agent's latest turn started."""
    fruitless_turns: int = 0
    """The number of latest turns without a submission."""
    post_hoc: Mapping[str, str] = field(default_factory=dict)
    """Hashes of post-hoc held-out results, by checkpoint."""

    @property
    def program_sha256(self) -> str:
        """The hash of the agent's current program; empty if none is recorded."""
        return self.program_changes[-1].program_sha256 if self.program_changes else self.opened.agent.program_sha256

    @property
    def budget(self) -> int:
        """The run's whole episode budget."""
        return self.opened.task.budget.episodes

    @property
    def spent(self) -> int:
        """Episodes charged so far."""
        last = self.submissions[-1] if self.submissions else None
        return last.first_global_episode + len(last.episodes) if last else 0

    @property
    def remaining(self) -> int:
        """Episodes left."""
        return self.budget - self.spent

    @property
    def films_left(self) -> int:
        """How many films the agent can still request; films that could not be made are not counted."""
        used = (
            submission.published.filmed if submission.published else len(submission.charged.films)
            for submission in self.submissions
        )
        return self.opened.task.films - sum(used)

    @property
    def submissions_left(self) -> int | None:
        """How many submissions are left; None if only the budget limits them."""
        return self.opened.task.budget.submissions_left(len(self.submissions))

    @property
    def takes_submissions(self) -> bool:
        """Whether the run accepts submissions."""
        return (
            self.stage is Stage.OPEN
            and not self.finish_asked
            and self.remaining >= self.opened.task.least_left
            and self.submissions_left != 0
        )

    @property
    def conversation_is_over(self) -> bool:
        """Whether the agent's conversation made its only submission, as independent samples do."""
        return self.opened.task.memory is Memory.NONE and len(self.submissions) > self.conversation_start

    @property
    def used(self) -> AllowanceUse:
        """What the agent has used so far, as recorded."""
        return self.ended + used_of(self.metered.usage, self.metered.seconds) if self.metered else self.ended

    @property
    def allowance_spent(self) -> bool:
        """Whether a limit set by the user is reached, so that the agent gets no further turn."""
        return self.cut or bool(self.opened.agent.allowance.spent(self.used))

    @property
    def close_reason(self) -> CloseReason:
        """The reason if the run closed now."""
        if self.remaining < self.opened.task.least_left:
            return CloseReason.BUDGET_SPENT
        if self.submissions_left == 0:
            return CloseReason.SUBMISSIONS_SPENT
        if self.finish_asked:
            return CloseReason.FINISH_ASKED
        return CloseReason.ALLOWANCE_SPENT if self.allowance_spent else CloseReason.AGENT_ENDED

    @property
    def playing(self) -> tuple[SubmissionState, ...]:
        """Charged submissions whose feedback is not published yet, in order."""
        return tuple(submission for submission in self.submissions if submission.published is None)

    @property
    def candidates(self) -> tuple[SubmissionState, ...]:
        """Submissions that can be selected, in order."""
        return tuple(submission for submission in self.submissions if submission.status is SubmissionStatus.OK)

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The distinct checkpoints of the candidates, in order of their first submission."""
        return tuple(dict.fromkeys(candidate.charged.checkpoint for candidate in self.candidates))

    @property
    def promising(self) -> tuple[str, ...]:
        """``checkpoints``, sorted by mean train return, the best first."""
        returns: dict[str, list[float]] = {name: [] for name in self.checkpoints}
        for candidate in self.candidates:
            returns[candidate.charged.checkpoint] += candidate.returns
        return tuple(sorted(returns, key=lambda name: nan_last_key(estimate(returns[name]).mean), reverse=True))

    @property
    def first_reached(self) -> int | None:
        """The earliest submission with the selected checkpoint; None before the selection."""
        return self.first_with(self.selected.checkpoint).index if self.selected else None

    def by_key(self, key: str) -> SubmissionState | None:
        """Return the submission with this key, or None."""
        return next((submission for submission in self.submissions if key and submission.charged.key == key), None)

    def rollout(self, split: Split, checkpoint: str) -> HiddenRollout:
        """Return the episodes of a hidden split that a checkpoint has played so far."""
        latest = self.hidden[-1:]  # of a run that is being played, whose hidden rollouts change with every event
        if not (latest and latest[0].split is split and latest[0].checkpoint == checkpoint):
            latest = _rollouts_by_checkpoint(self.hidden).get(checkpoint, ())
        rollouts = (each for each in latest if each.split is split)
        cases = max(1, self.cases(split))  # of an unknown number, none is played
        return next(rollouts, None) or HiddenRollout(split, checkpoint, (None,) * cases)

    def cases(self, split: Split) -> int:
        """Return how many cases of a split the run uses; 0 if unknown."""
        task = self.opened.task
        return {
            Split.TRAIN: task.train_cases,
            Split.VALIDATION: task.validation_cases,
            Split.HELD_OUT: task.held_out_cases,
        }[split]

    def context(self, submission: SubmissionState) -> PolicyContext:
        """Return the context given to this submission's policy, in train and in hidden evaluation."""
        environment = self.opened.shown_environment
        shown = self.shown(submission)
        return PolicyContext(
            env=environment.name,
            submit_index=shown.index,
            n_episodes_this_submit=len(submission.episodes),
            remaining_budget_after=shown.remaining_budget,
            max_episode_steps=environment.max_steps,
            obs_space=self.opened.observation_schema,
            action_space=self.opened.action_schema,
            reward_components=environment.reward_components,
        )

    def shown(self, submission: SubmissionState) -> SubmissionState:
        """Return a submission as agent and policy know it: of independent samples, as the first and only one."""
        task = self.opened.task
        if task.memory is Memory.FULL:
            return submission
        charged, left = replace(submission.charged, submit_index=0), task.budget.most - len(submission.episodes)
        return replace(submission, charged=charged, first_global_episode=0, remaining_budget=left)

    def hidden_limit_s(self, checkpoint: str) -> float:
        """Return the seconds that a checkpoint's policy may take over a hidden episode; 0 for no such limit.

        They follow from the event log alone: ``hidden_pace`` times its longest train episode, or the longest possible
        episode at its slowest train pace if that is longer, and ``hidden_grace_s`` besides.
        """
        played = [
            episode
            for submission in self.submissions
            if submission.charged.checkpoint == checkpoint
            for episode in submission.episodes
            if episode
        ]
        pace, steps = self.opened.hidden_pace, self.opened.task.environment.max_steps
        if not pace or not played:
            return 0.0
        longest = max(max(episode.seconds, steps * (episode.act_seconds or 0.0)) for episode in played)
        return round(self.opened.hidden_grace_s + pace * longest, 1)

    def first_with(self, checkpoint: str) -> SubmissionState:
        """Return the earliest candidate with this checkpoint, whose context hidden evaluation repeats."""
        return _first_candidates(self.submissions)[checkpoint]

    def is_candidate(self, checkpoint: str) -> bool:
        """Return whether a submission with this checkpoint can be selected."""
        return checkpoint in _first_candidates(self.submissions)

    def is_selected(self, submission: SubmissionState) -> bool:
        """Return whether a submission is the one that was selected."""
        return self.selected is not None and self.selected.submit_index == submission.index

    def validation(self, checkpoint: str) -> Estimate | None:
        """Return a checkpoint's validation mean; None before all its cases are played."""
        rollout = self.rollout(Split.VALIDATION, checkpoint)
        return None if rollout.missing else estimate(rollout.returns)

    def choice(self) -> Candidate | None:
        """Return the candidate that validation selects; None if there are no candidates."""
        return select(
            Candidate(candidate.index, validation.mean)
            for candidate in self.candidates
            if (validation := self.validation(candidate.charged.checkpoint))
        )

    def held_out(self) -> Estimate | None:
        """Return the selected checkpoint's held-out mean and standard error; None before all its cases are played."""
        if self.selected is None:
            return None
        rollout = self.rollout(Split.HELD_OUT, self.selected.checkpoint)
        return None if rollout.missing else estimate(rollout.returns)


_known_rollouts: list[tuple[tuple[HiddenRollout, ...], Mapping[str, tuple[HiddenRollout, ...]]]] = []
_known_candidates: list[tuple[tuple[SubmissionState, ...], Mapping[str, SubmissionState]]] = []
"""The latest tuple that was looked into, with what is found in it: readers of a long run look up each checkpoint."""


def _rollouts_by_checkpoint(hidden: tuple[HiddenRollout, ...]) -> Mapping[str, tuple[HiddenRollout, ...]]:
    """Return the rollouts of each checkpoint."""
    for known, cached in _known_rollouts[:1]:
        if known is hidden:
            return cached
    by_checkpoint: dict[str, tuple[HiddenRollout, ...]] = {}
    for rollout in hidden:
        by_checkpoint[rollout.checkpoint] = (*by_checkpoint.get(rollout.checkpoint, ()), rollout)
    _known_rollouts[:] = [(hidden, by_checkpoint)]
    return by_checkpoint


def _first_candidates(submissions: tuple[SubmissionState, ...]) -> Mapping[str, SubmissionState]:
    """Return the earliest candidate with each checkpoint."""
    for known, cached in _known_candidates[:1]:
        if known is submissions:
            return cached
    first: dict[str, SubmissionState] = {}
    for submission in submissions:
        if submission.status is SubmissionStatus.OK:
            first.setdefault(submission.charged.checkpoint, submission)
    _known_candidates[:] = [(submissions, first)]
    return first


def fold(events: Iterable[Event]) -> RunState:
    """Return the state after all events; the first must be ``RunOpened``."""
    state: RunState | None = None
    for event in events:
        state = after(state, event)
    if state is None:
        raise RecordError("The journal is empty: the run was never opened.")
    return state


def after(state: RunState | None, event: Event) -> RunState:
    """Return the state after one more event; raise ``RecordError`` if the event breaks a rule."""
    if state is None:
        _require(isinstance(event, RunOpened), "The journal does not begin with the opening of a run.")
        assert isinstance(event, RunOpened)  # noqa: S101 - for the type checker; required above
        return RunState(event)
    if isinstance(event, PostHocPlayed):
        return _played_post_hoc(state, event)
    _require(state.stage is not Stage.FINISHED, f"{type(event).__name__} after the run finished.")
    match event:
        case RunOpened():
            raise RecordError("The journal opens its run twice.")
        case RunResumed() | RunStopped() | EpisodeRepeated():
            return _interrupted(state, event)
        case AgentStarted() | AgentMetered() | AgentEnded():
            return _turned(state, event)
        case SubmissionCharged() | PolicyRestored() | FinishAsked():
            return _requested(state, event)
        case EpisodePlayed():
            return _trained(state, event) if event.split is Split.TRAIN else _evaluated(state, event)
        case SubmissionPublished():
            return _published(state, event)
        case RunClosed():
            return _closed(state, event)
        case CheckpointSelected():
            return _selected(state, event)
        case RunFinished():
            return _finished(state, event)


def _interrupted(state: RunState, event: RunResumed | RunStopped | EpisodeRepeated) -> RunState:
    if isinstance(event, RunResumed) and event.program_sha256:
        return replace(state, program_changes=(*state.program_changes, event))
    return state


def _turned(state: RunState, event: AgentStarted | AgentMetered | AgentEnded) -> RunState:
    _require(state.stage is Stage.OPEN, "The agent played on after the run closed.")
    _require(event.turn == state.turns, f"Turn {event.turn} of the agent is out of order.")
    if isinstance(event, AgentStarted):
        _require(not state.allowance_spent, "The agent played on after its allowance was spent.")
        return replace(state, ended=state.used, metered=None, conversation_start=len(state.submissions))
    if isinstance(event, AgentMetered):
        return replace(state, metered=event)
    paused = event.end in {end.value for end in AgentEnd if end.pauses}
    ended = state.ended + used_of(event.usage, event.seconds, 0 if paused else 1)
    turns, pauses, cut = state.turns + 1, state.pauses + paused, event.end == AgentEnd.ALLOWANCE_SPENT
    fruitless = 0 if len(state.submissions) > state.conversation_start else state.fruitless_turns + (not paused)
    return replace(state, turns=turns, pauses=pauses, ended=ended, metered=None, cut=cut, fruitless_turns=fruitless)


def _requested(state: RunState, event: SubmissionCharged | PolicyRestored | FinishAsked) -> RunState:
    match event:
        case SubmissionCharged():
            return _charged(state, event)
        case PolicyRestored():
            return _restored(state, event)
        case FinishAsked():
            return _finish_asked(state, event)


def _charged(state: RunState, event: SubmissionCharged) -> RunState:
    count = len(event.env_instances)
    _require(state.stage is Stage.OPEN, f"Submission {event.submit_index} was charged after the run closed.")
    _require(state.finish_asked is None, f"Submission {event.submit_index} was charged after the agent had finished.")
    _require(event.submit_index == len(state.submissions), f"Submission {event.submit_index} is out of order.")
    enough = state.remaining >= state.opened.task.least_left
    _require(enough and 0 < count <= state.remaining, f"Submission {event.submit_index} overdraws the budget.")
    _require(state.submissions_left != 0, f"Submission {event.submit_index} is beyond the most that the run takes.")
    _require(not state.conversation_is_over, f"Submission {event.submit_index} is the second of its conversation.")
    _require(state.by_key(event.key) is None, f"The key {event.key!r} was charged twice.")
    try:
        state.opened.task.budget.check(count, state.remaining)
    except RequestRefused as refused:
        raise RecordError(f"Submission {event.submit_index} breaks the budget's rule: {refused}") from refused
    cases = state.cases(Split.TRAIN)
    _require(all(0 <= index < cases for index in event.env_instances), "A case outside the train split was charged.")
    _require(films_fit(event.films, count, state.films_left), f"Submission {event.submit_index} breaks the films rule.")
    parent_is_known = event.parent is None or STARTER <= event.parent < event.submit_index
    _require(parent_is_known, f"Submission {event.submit_index} names a parent that did not come before it.")
    submission = SubmissionState(event, state.spent, state.remaining - count, (None,) * count)
    return replace(state, submissions=(*state.submissions, submission), restored=None)


def _restored(state: RunState, event: PolicyRestored) -> RunState:
    _require(state.takes_submissions, "A policy was restored while nothing more could be submitted.")
    _require(0 <= event.submit_index < len(state.submissions), "A policy was restored that was never submitted.")
    return replace(state, restored=event.submit_index)


def _trained(state: RunState, event: EpisodePlayed) -> RunState:
    index = event.submit_index
    _require(index is not None and 0 <= index < len(state.submissions), "An episode belongs to no submission.")
    assert index is not None  # noqa: S101 - for the type checker; required above
    submission = state.submissions[index]
    _require(submission.published is None, f"An episode was played after submission {index} was published.")
    _require(event.checkpoint == submission.charged.checkpoint, "An episode was played with another checkpoint.")
    episodes = _filled(submission.episodes, event)
    return _with_submission(state, replace(submission, episodes=episodes))


def _evaluated(state: RunState, event: EpisodePlayed) -> RunState:
    if event.split is Split.VALIDATION:
        _require(state.stage is Stage.CLOSED, "Validation was played while it was not its time.")
        _require(state.is_candidate(event.checkpoint), "Validation was played with a checkpoint that is no candidate.")
    else:
        _require(state.stage is Stage.SELECTED, "Held-out cases were played while it was not their time.")
        chosen = state.selected is not None and state.selected.checkpoint == event.checkpoint
        _require(chosen, "Held-out cases were played with a checkpoint that was not selected.")
    before = state.rollout(event.split, event.checkpoint)
    now = replace(before, episodes=_filled(before.episodes, event))
    is_latest = bool(state.hidden) and state.hidden[-1] is before
    others = state.hidden[:-1] if is_latest else tuple(rollout for rollout in state.hidden if rollout is not before)
    return replace(state, hidden=(*others, now))


def _published(state: RunState, event: SubmissionPublished) -> RunState:
    _require(0 <= event.submit_index < len(state.submissions), "A submission was published that was never charged.")
    submission = state.submissions[event.submit_index]
    _require(submission.published is None, f"Submission {event.submit_index} was published twice.")
    _require(0 <= event.filmed <= len(submission.charged.films), "More was filmed than was asked for.")
    if event.status is SubmissionStatus.OK:
        _require(not submission.missing, f"Submission {event.submit_index} is ok but unplayed.")
    else:
        ends = event.status is not SubmissionStatus.INTERRUPTED
        _require(ends, f"Submission {event.submit_index} was published while it was interrupted.")
        unplayed = all(episode is None for episode in submission.episodes)
        _require(unplayed, f"Submission {event.submit_index} is {event.status} but played.")
    return _with_submission(state, replace(submission, published=event))


def _finish_asked(state: RunState, event: FinishAsked) -> RunState:
    _require(state.takes_submissions, "The agent finished a run that was over.")
    _require(state.opened.task.finish_allowed, "The agent finished a run that must be played to its end.")
    return replace(state, finish_asked=event)


def _closed(state: RunState, event: RunClosed) -> RunState:
    _require(state.stage is Stage.OPEN, "The run was closed twice.")
    _require(not state.playing, "The run was closed while a submission was playing.")
    _require(event.reason is state.close_reason, f"The run was closed for {event.reason}, not {state.close_reason}.")
    return replace(state, stage=Stage.CLOSED, closed=event)


def _selected(state: RunState, event: CheckpointSelected) -> RunState:
    _require(state.stage is Stage.CLOSED, "A checkpoint was selected while it was not the time.")
    unplayed = any(
        state.rollout(Split.VALIDATION, candidate.charged.checkpoint).missing for candidate in state.candidates
    )
    _require(not unplayed, "A checkpoint was selected before validation was complete.")
    best = state.choice()
    if best is None or best.submit_index != event.submit_index:
        raise RecordError(f"Submission {event.submit_index} was selected, but validation names another.")
    same = _same(best.validation_mean, event.validation_mean)
    _require(same, f"The validation mean {event.validation_mean} is not the played {best.validation_mean}.")
    named = state.submissions[event.submit_index].charged.checkpoint == event.checkpoint
    _require(named, "The selected checkpoint is not its submission's.")
    return replace(state, stage=Stage.SELECTED, selected=event)


def _finished(state: RunState, event: RunFinished) -> RunState:
    if event.status is RunStatus.NO_OK_SUBMIT:
        _require(state.stage is Stage.CLOSED and not state.candidates, "A run with candidates ended without a score.")
        _require(event.score is None and event.standard_error is None, "A run without candidates was scored.")
    else:
        held_out = state.held_out()
        if held_out is None:
            raise RecordError("The run was scored before its held-out cases were played.")
        same = _same(held_out.mean, event.score) and _same(held_out.standard_error, event.standard_error)
        _require(same, f"The score {event.score} is not the held-out mean {held_out.mean}.")
    return replace(state, stage=Stage.FINISHED, finished=event)


def _played_post_hoc(state: RunState, event: PostHocPlayed) -> RunState:
    _require(state.stage is Stage.FINISHED, "Held-out cases were played post hoc before the run finished.")
    other = state.selected is not None and event.checkpoint != state.selected.checkpoint
    _require(
        other and event.checkpoint in state.checkpoints, "A checkpoint played post hoc that is no other candidate."
    )
    return replace(state, post_hoc={**state.post_hoc, event.checkpoint: event.sha256})


def _filled(episodes: tuple[Episode | None, ...], event: EpisodePlayed) -> tuple[Episode | None, ...]:
    _require(0 <= event.position < len(episodes), f"Episode {event.position} lies outside its rollout.")
    _require(episodes[event.position] is None, f"Episode {event.position} was played twice.")
    return (*episodes[: event.position], event.episode, *episodes[event.position + 1 :])


def _with_submission(state: RunState, submission: SubmissionState) -> RunState:
    before, behind = state.submissions[: submission.index], state.submissions[submission.index + 1 :]
    return replace(state, submissions=(*before, submission, *behind))


def _same(played: float | None, recorded: float | None) -> bool:
    if played is None or recorded is None:
        return played is recorded
    return played == recorded or (math.isnan(played) and math.isnan(recorded))


def _require(condition: bool, message: str) -> None:  # noqa: FBT001 - the one thing that it is called with
    if not condition:
        raise RecordError(message)
