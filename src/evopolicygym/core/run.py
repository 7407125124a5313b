"""A run's state, as a pure fold over its journal's events.

An event that breaks a rule of the protocol raises ``RecordError``: what can be folded is consistent. So the judge, the
resuming of a run and ``verify`` all stand on this one file.
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
    """One submission and what has come of it so far."""

    charged: SubmissionCharged
    first_global_episode: int
    remaining_budget: int
    """After its charge."""
    episodes: tuple[Episode | None, ...]
    """By local index; None where not yet played."""
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
    def failed(self) -> int:
        """In how many of the episodes played so far the policy failed."""
        return sum(episode is not None and episode.failure is not None for episode in self.episodes)

    @property
    def load_error(self) -> str:
        """In a line, why its policy could not be loaded; empty where it could."""
        error = self.published.error if self.published else None
        return f"{error.status}: {next(iter(error.message.splitlines()), '')}" if error else ""

    @property
    def trouble(self) -> str:
        """In a line, why it didn't load, or in how many of its episodes the policy failed; empty where all is well."""
        trouble = self.load_error or (failures("episodes", self.episodes) if self.failed else "")
        return f"submission {self.index}: {trouble}" if trouble else ""


class Stage(StrEnum):
    """Where a run stands."""

    OPEN = "open"
    """Submissions are taken."""
    CLOSED = "closed"
    """Candidates play validation."""
    SELECTED = "selected"
    """The selected checkpoint plays held-out."""
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class RunState:
    """All that is known of a run from its journal."""

    opened: RunOpened
    stage: Stage = Stage.OPEN
    submissions: tuple[SubmissionState, ...] = ()
    hidden: tuple[HiddenRollout, ...] = ()
    turns: int = 0
    """Turns of the agent that have ended."""
    pauses: int = 0
    """Those of them that ended for a reason outside of the agent, and don't count among the turns that it has."""
    ended: AllowanceUse = field(default_factory=AllowanceUse)
    """What the agent used in turns that are over, interrupted ones included."""
    metered: AgentMetered | None = None
    """What is known of a turn that has not ended."""
    cut: bool = False
    """Whether the agent was ended as a limit of its user's was reached."""
    restored: int | None = None
    """The submission whose policy the agent restored last, if it has submitted nothing since."""
    finish_asked: FinishAsked | None = None
    closed: RunClosed | None = None
    selected: CheckpointSelected | None = None
    finished: RunFinished | None = None
    program_changes: tuple[RunResumed, ...] = ()
    """Where the run went on with another program of the agent's than before."""
    conversation_start: int = 0
    """How many submissions there were when the agent's latest turn started."""
    fruitless_turns: int = 0
    """How many of the agent's turns, up to the latest that ended, made no submission."""
    post_hoc: Mapping[str, str] = field(default_factory=dict)
    """Hashes of what checkpoints made of held-out after the end, by checkpoint."""

    @property
    def program_sha256(self) -> str:
        """The hash of the agent's program as it played last; empty where the record doesn't know one."""
        return self.program_changes[-1].program_sha256 if self.program_changes else self.opened.agent.program_sha256

    @property
    def budget(self) -> int:
        """The run's whole episode budget."""
        return self.opened.task.budget.episodes

    @property
    def spent(self) -> int:
        """Episodes charged so far."""
        return sum(len(submission.episodes) for submission in self.submissions)

    @property
    def remaining(self) -> int:
        """Episodes left."""
        return self.budget - self.spent

    @property
    def films_left(self) -> int:
        """Films that the agent may still ask for; one that could not be made costs none."""
        asked = (one.published.filmed if one.published else len(one.charged.films) for one in self.submissions)
        return self.opened.task.films - sum(asked)

    @property
    def submissions_left(self) -> int | None:
        """How many submissions the run still takes; None where only the budget limits them."""
        return self.opened.task.budget.submissions_left(len(self.submissions))

    @property
    def takes_submissions(self) -> bool:
        """Whether anything more may be charged."""
        return (
            self.stage is Stage.OPEN
            and not self.finish_asked
            and self.remaining >= self.opened.task.least_left
            and self.submissions_left != 0
        )

    @property
    def conversation_is_over(self) -> bool:
        """Whether the agent's conversation has made the one submission that independent samples have."""
        return self.opened.task.memory is Memory.NONE and len(self.submissions) > self.conversation_start

    @property
    def used(self) -> AllowanceUse:
        """What the agent has used so far, as far as it is recorded."""
        return self.ended + used_of(self.metered.usage, self.metered.seconds) if self.metered else self.ended

    @property
    def allowance_spent(self) -> bool:
        """Whether the agent may play no further turn, as a limit of its user's is reached."""
        return self.cut or bool(self.opened.agent.allowance.spent(self.used))

    @property
    def close_reason(self) -> CloseReason:
        """Why the run closes, if it closes now."""
        if self.remaining < self.opened.task.least_left:
            return CloseReason.BUDGET_SPENT
        if self.submissions_left == 0:
            return CloseReason.SUBMISSIONS_SPENT
        if self.finish_asked:
            return CloseReason.FINISH_ASKED
        return CloseReason.ALLOWANCE_SPENT if self.allowance_spent else CloseReason.AGENT_ENDED

    @property
    def playing(self) -> tuple[SubmissionState, ...]:
        """Submissions that are charged and whose feedback is not yet published, in their order."""
        return tuple(submission for submission in self.submissions if submission.published is None)

    @property
    def candidates(self) -> tuple[SubmissionState, ...]:
        """Submissions that may be selected, in their order."""
        return tuple(submission for submission in self.submissions if submission.status is SubmissionStatus.OK)

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The different checkpoints among the candidates, in the order in which they were first submitted."""
        return tuple(dict.fromkeys(one.charged.checkpoint for one in self.candidates))

    @property
    def promising(self) -> tuple[str, ...]:
        """The same, those with the best mean train return first, of equals the first submitted."""
        returns: dict[str, list[float]] = {name: [] for name in self.checkpoints}
        for one in self.candidates:
            returns[one.charged.checkpoint] += one.returns
        return tuple(sorted(returns, key=lambda name: nan_last_key(estimate(returns[name]).mean), reverse=True))

    @property
    def first_reached(self) -> int | None:
        """The earliest submission with the selected checkpoint, of which the latest is selected; None until one is."""
        return self.first_with(self.selected.checkpoint).index if self.selected else None

    def by_key(self, key: str) -> SubmissionState | None:
        """Return the submission that a client named so, or None."""
        return next((one for one in self.submissions if key and one.charged.key == key), None)

    def rollout(self, split: Split, checkpoint: str) -> HiddenRollout:
        """Return what a checkpoint has played of a hidden split; nothing so far where it hasn't begun."""
        found = (one for one in self.hidden if one.split is split and one.checkpoint == checkpoint)
        return next(found, HiddenRollout(split, checkpoint, (None,) * self.cases(split)))

    def cases(self, split: Split) -> int:
        """Return how many cases of a split this run may play."""
        task = self.opened.task
        return {
            Split.TRAIN: task.train_cases,
            Split.VALIDATION: task.validation_cases,
            Split.HELD_OUT: task.held_out_cases,
        }[split]

    def context(self, submission: SubmissionState) -> PolicyContext:
        """Return what a policy of this submission is given, in train as in hidden evaluation."""
        environment = self.opened.task.environment
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

    def first_with(self, checkpoint: str) -> SubmissionState:
        """Return the earliest candidate with this checkpoint: hidden evaluation repeats its context."""
        return next(one for one in self.candidates if one.charged.checkpoint == checkpoint)

    def choice(self) -> Candidate | None:
        """Return what selection yields from the validation played; None where nothing is a candidate."""
        return select(
            Candidate(one.index, estimate(rollout.returns).mean)
            for one in self.candidates
            if not (rollout := self.rollout(Split.VALIDATION, one.charged.checkpoint)).missing
        )

    def held_out(self) -> Estimate | None:
        """Return the selected checkpoint's held-out estimate; None until all its cases are played."""
        if self.selected is None:
            return None
        rollout = self.rollout(Split.HELD_OUT, self.selected.checkpoint)
        return None if rollout.missing else estimate(rollout.returns)


def fold(events: Iterable[Event]) -> RunState:
    """Return the state after all events; the first must be ``RunOpened``."""
    state: RunState | None = None
    for event in events:
        state = after(state, event)
    if state is None:
        raise RecordError("The journal is empty: the run was never opened.")
    return state


def after(state: RunState | None, event: Event) -> RunState:
    """Return the state after one more event; raise ``RecordError`` where the event breaks a rule."""
    if state is None:
        _require(isinstance(event, RunOpened), "The journal does not begin with the opening of a run.")
        assert isinstance(event, RunOpened)  # noqa: S101 - for the type checker; demanded above
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
    assert index is not None  # noqa: S101 - for the type checker; demanded above
    submission = state.submissions[index]
    _require(submission.published is None, f"An episode was played after submission {index} was published.")
    _require(event.checkpoint == submission.charged.checkpoint, "An episode was played with another checkpoint.")
    episodes = _filled(submission.episodes, event)
    return _with_submission(state, replace(submission, episodes=episodes))


def _evaluated(state: RunState, event: EpisodePlayed) -> RunState:
    if event.split is Split.VALIDATION:
        _require(state.stage is Stage.CLOSED, "Validation was played while it was not its time.")
        known = any(one.charged.checkpoint == event.checkpoint for one in state.candidates)
        _require(known, "Validation was played with a checkpoint that is no candidate.")
    else:
        _require(state.stage is Stage.SELECTED, "Held-out cases were played while it was not their time.")
        chosen = state.selected is not None and state.selected.checkpoint == event.checkpoint
        _require(chosen, "Held-out cases were played with a checkpoint that was not selected.")
    before = state.rollout(event.split, event.checkpoint)
    now = replace(before, episodes=_filled(before.episodes, event))
    return replace(state, hidden=(*(one for one in state.hidden if one is not before), now))


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
    unplayed = any(state.rollout(Split.VALIDATION, one.charged.checkpoint).missing for one in state.candidates)
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
