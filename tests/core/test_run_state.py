"""A run's state is a fold over its events: what follows the protocol folds, whatever breaks it is refused."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from evopolicygym.core.agent import AgentEnd, Allowance, AllowanceUse
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError
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
    RunClosed,
    RunFinished,
    RunResumed,
    RunStatus,
    RunStopped,
    StopReason,
    SubmissionCharged,
)
from evopolicygym.core.run import RunState, Stage, after, fold
from evopolicygym.core.score import Candidate
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.task import BudgetRule
from fakes import TIME, charged, episode, held_out, opening, published, submitted, task, trained, validated, whole_run

OPENED = opening()
BUDGET = OPENED.task.budget.episodes
ANYWHERE = [
    RunResumed(TIME),
    RunStopped(TIME, StopReason.INTERRUPTED),
    EpisodeRepeated(TIME, Split.TRAIN, 0, ""),
]
returns = some.floats(-1e3, 1e3)


@some.composite
def runs(draw: some.DrawFn) -> list[Event]:
    """Return the events of a whole run that follows the protocol, as a judge would write them."""
    events: list[Event] = [OPENED, AgentStarted(TIME, 0)]
    state = fold(events)

    def happen(event: Event) -> None:
        nonlocal state
        state = after(state, event)
        events.append(event)

    while state.remaining and draw(some.integers(0, 9)):
        happen(charged(len(state.submissions), draw(some.integers(1, state.remaining)), draw(some.sampled_from("abc"))))
        if draw(some.booleans()):
            happen(draw(some.sampled_from(ANYWHERE)))
        if not draw(some.integers(0, 4)):
            happen(published(len(state.submissions) - 1, SubmissionStatus.IMPORT_ERROR))
    for one in state.playing:
        for local in draw(some.permutations(range(len(one.episodes)))):
            happen(trained(one.index, local, draw(returns), one.charged.checkpoint))
        happen(published(one.index))
    happen(AgentEnded(TIME, 0, "finished"))
    happen(RunClosed(TIME, state.close_reason))
    for name in dict.fromkeys(one.charged.checkpoint for one in state.candidates):
        for event in validated(name, [draw(returns) for _ in range(2)]):
            happen(event)
    choice = state.choice()
    if choice is None:
        happen(RunFinished(TIME, RunStatus.NO_OK_SUBMIT))
        return events
    checkpoint = state.submissions[choice.submit_index].charged.checkpoint
    happen(CheckpointSelected(TIME, choice.submit_index, checkpoint, choice.validation_mean))
    for event in held_out(checkpoint, [draw(returns) for _ in range(3)]):
        happen(event)
    score = state.held_out()
    assert score is not None
    happen(RunFinished(TIME, RunStatus.SCORED, score.mean, score.standard_error))
    return events


def refused(*events: Event) -> str:
    """Return what is said of the last event, all others being right."""
    state = fold(events[:-1])
    with pytest.raises(RecordError) as caught:
        after(state, events[-1])
    return str(caught.value)


@given(runs(), some.data())
def test_a_run_folds_from_wherever_it_stands(events: list[Event], data: some.DataObject) -> None:
    """Folding the rest onto a prefix gives what folding all gives: a run can be resumed anywhere."""
    place = data.draw(some.integers(1, len(events)))
    state = fold(events[:place])
    for event in events[place:]:
        state = after(state, event)

    assert fold(events) == state
    assert state.stage is Stage.FINISHED


@given(runs())
def test_the_budget_is_exact(events: list[Event]) -> None:
    """At every moment, what is spent is the episodes charged, never more than the budget."""
    state, charged_so_far = None, 0
    for event in events:
        state = after(state, event)
        charged_so_far += len(event.env_instances) if isinstance(event, SubmissionCharged) else 0

        assert state.spent == charged_so_far
        assert 0 <= state.remaining <= BUDGET


@given(runs(), some.data())
def test_what_happened_once_never_happens_again(events: list[Event], data: some.DataObject) -> None:
    """No event of a run can be recorded twice, a resumption, a repeat and a turn's beginning aside."""
    place = data.draw(some.integers(0, len(events) - 1))
    if events[place] in ANYWHERE or isinstance(events[place], AgentStarted):
        return

    assert refused(*events[: place + 1], events[place])


@given(runs(), some.data())
def test_nothing_follows_the_end(events: list[Event], data: some.DataObject) -> None:
    """After a run has finished, no event is taken."""
    event = data.draw(some.sampled_from([*events, EpisodeRepeated(TIME, Split.TRAIN, 0, "")]))

    assert "after the run finished" in refused(*events, event)


def test_global_episodes_are_counted_over_the_run() -> None:
    """A submission's first episode has the number of those charged before."""
    state = fold([OPENED, *submitted(0, [1.0, 2.0, 3.0]), charged(1, 2)])

    assert [one.first_global_episode for one in state.submissions] == [0, 3]
    assert [one.remaining_budget for one in state.submissions] == [5, 3]


def test_a_submission_is_interrupted_until_it_is_published() -> None:
    """Before its feedback is in place a submission has no other status, and its missing episodes are known."""
    one = fold([OPENED, charged(0, 3), trained(0, 1)]).submissions[0]

    assert (one.status, one.missing) == (SubmissionStatus.INTERRUPTED, (0, 2))


def test_only_ok_submissions_are_candidates() -> None:
    """A policy that could not be loaded is never selected."""
    events = [OPENED, charged(0), published(0, SubmissionStatus.INIT_ERROR), *submitted(1, [1.0, 2.0])]

    assert [one.index for one in fold(events).candidates] == [1]


def test_equal_checkpoints_are_evaluated_in_the_first_ones_context() -> None:
    """Identical checkpoints are played once, with what the first submission's policy was told."""
    state = fold([OPENED, *submitted(0, [1.0] * 3), *submitted(1, [1.0])])
    context = state.context(state.first_with("a"))

    assert (context.submit_index, context.n_episodes_this_submit, context.remaining_budget_after) == (0, 3, 5)
    assert [context.episode_index(position) for position in range(4)] == [0, 1, 2, 0]


def test_validation_decides_and_not_train() -> None:
    """The checkpoint with the best validation returns is selected, although another played better in train."""
    state = fold(
        [
            OPENED,
            *submitted(0, [1.0] * 4, "a"),
            *submitted(1, [9.0] * 4, "b"),
            RunClosed(TIME, CloseReason.BUDGET_SPENT),
            *validated("a", [3.0, 4.0]),
            *validated("b", [1.0, 2.0]),
        ]
    )

    assert state.choice() == Candidate(0, 3.5)


def test_equal_means_go_to_the_latest() -> None:
    """Of submissions with equal validation means, the latest is selected."""
    state = fold(
        [
            OPENED,
            *submitted(0, [1.0] * 4, "a"),
            *submitted(1, [2.0] * 4, "b"),
            RunClosed(TIME, CloseReason.BUDGET_SPENT),
            *validated("a", [1.0, 3.0]),
            *validated("b", [3.0, 1.0]),
        ]
    )
    choice = state.choice()

    assert choice is not None
    assert choice.submit_index == 1


OUTSIDE = {AgentEnd.LIMITED, AgentEnd.UNAUTHORIZED, AgentEnd.UNAVAILABLE, AgentEnd.KILLED}
turns = some.tuples(
    some.sampled_from([end for end in AgentEnd if end is not AgentEnd.ALLOWANCE_SPENT]), *[some.booleans()] * 2
)


@settings(max_examples=40)
@given(some.lists(turns, min_size=1, max_size=BUDGET))
def test_what_turns_add_up_to(played: list[tuple[AgentEnd, bool, bool]]) -> None:
    """Pauses count against no limit; what an interrupted turn used counts; a submission ends a row of turns without."""
    events: list[Event] = [OPENED]
    submissions = fruitless = cost = tokens = seconds = counted = 0
    for turn, (end, interrupted, submits) in enumerate(played):
        meters = [AgentStarted(TIME, turn), *(AgentMetered(TIME, turn, each, {"input": 20 * each}) for each in (1, 3))]
        if interrupted:
            events += [*meters, RunResumed(TIME)]
            tokens, seconds = tokens + 60, seconds + 3
        events += [*meters, *(submitted(submissions, [1.0]) if submits else [])]
        assert fold(events).used == AllowanceUse(cost, tokens + 60, seconds + 3, counted)
        events.append(AgentEnded(TIME, turn, end.value, usage={"input": 70, "output": 7, "cost": 2}, seconds=4))
        cost, tokens, seconds = cost + 2, tokens + 77, seconds + 4
        counted += end not in OUTSIDE
        submissions += submits
        fruitless = 0 if submits else fruitless + (end not in OUTSIDE)
    state = fold(events)

    assert (state.turns, state.pauses) == (len(played), sum(end in OUTSIDE for end, _, _ in played))
    assert state.used == AllowanceUse(cost, tokens, seconds, counted)
    assert (state.fruitless_turns, state.cut) == (fruitless, False)


def test_a_program_that_changed_is_that_of_the_run() -> None:
    """The program of an agent is that of the opening, until a run is resumed with another."""
    opened = opening(agent=replace(OPENED.agent, program_sha256="old"))
    events = [opened, RunResumed(TIME), RunResumed(TIME, "new"), RunResumed(TIME, "newer"), *ANYWHERE]

    assert [fold(events[:count]).program_sha256 for count in (1, 2, 3, 4, 7)] == ["old", "old", "new", "newer", "newer"]


def test_an_agent_that_spent_its_allowance_plays_no_more() -> None:
    """It gets no turn after one that its limit ended, or after which a limit is reached, and the run closes for it."""
    limited = opening(agent=replace(OPENED.agent, allowance=Allowance(turns=2)))
    one, two = ([AgentStarted(TIME, turn), AgentEnded(TIME, turn, "finished")] for turn in range(2))
    cut = AgentEnded(TIME, 0, AgentEnd.ALLOWANCE_SPENT.value)

    assert not fold([limited, *one]).allowance_spent
    for spent, turn in (([limited, *one, *two], 2), ([OPENED, AgentStarted(TIME, 0), cut], 1)):
        assert "allowance" in refused(*spent, AgentStarted(TIME, turn))
        assert fold(spent).close_reason is CloseReason.ALLOWANCE_SPENT


def test_how_long_a_hidden_episode_may_take() -> None:
    """As many times as long as the checkpoint's own slowest train episode could have taken, and a grace besides."""
    opened = opening(hidden_pace=3.0, hidden_grace_s=2.0)  # of three steps
    times = {"a": [(5.0, 1.0), (4.0, 2.0), (1.0, None)], "b": [(7.0, 2.0), (7.5, None)]}
    events = [
        event
        for index, (name, each) in enumerate(times.items())
        for event in (
            charged(index, len(each) + 1, name),
            *(
                replace(trained(index, place, 1.0, name), episode=replace(episode(1.0), seconds=whole, act_seconds=act))
                for place, (whole, act) in enumerate(each)
            ),
        )
    ]
    limits = [[fold([first, *events]).hidden_limit_s(name) for name in "abc"] for first in (opened, OPENED)]

    assert limits == [[20.0, 24.5, 0.0], [0.0, 0.0, 0.0]]


def test_an_empty_journal_is_no_run() -> None:
    """Without an opening there is nothing."""
    with pytest.raises(RecordError, match="never opened"):
        fold([])


BOTH = [*submitted(0, [1.0] * 4, "a"), *submitted(1, [2.0] * 4, "b")]
CLOSED = [OPENED, *BOTH, RunClosed(TIME, CloseReason.BUDGET_SPENT)]
VALIDATED = [*CLOSED, *validated("a", [1.0, 2.0]), *validated("b", [3.0, 4.0])]
SELECTED = [*VALIDATED, CheckpointSelected(TIME, 1, "b", 3.5)]
PLAYED = [*SELECTED, *held_out("b", [1.0, 2.0, 3.0])]
AN_ERROR = 0.5773502691896257
TWO_A_TIME = opening(task=task(budget=BudgetRule(8, 2, 4)))
FILMED = opening(task=task(films=3))
TAKES_ONE = opening(task=task(budget=BudgetRule(BUDGET, max_submissions=1)))
SAMPLES = opening(task=task(budget=BudgetRule(BUDGET, 1, 3), choices={"memory": "none"}))
SAMPLED = [
    event
    for turn in range(2)
    for event in (AgentStarted(TIME, turn), *submitted(turn, [1.0] * 3), AgentEnded(TIME, turn, "finished"))
]
"""Two whole samples, after which two episodes are left, too few for another."""
MAY_FINISH = opening(task=task(finish_allowed=True))


@pytest.mark.parametrize(
    ("events", "said"),
    [
        # the budget
        ([OPENED, charged(0, BUDGET + 1)], "overdraws"),
        ([OPENED, *submitted(0, [1.0] * 6), charged(1, 3)], "overdraws"),
        ([OPENED, charged(0, 0)], "overdraws"),
        ([TAKES_ONE, *submitted(0, [1.0]), charged(1, 1)], "beyond the most"),
        ([TAKES_ONE, *submitted(0, [1.0]), RunClosed(TIME, CloseReason.AGENT_ENDED)], "not submissions_spent"),
        ([TWO_A_TIME, charged(0, 5)], "at most 4"),
        ([TWO_A_TIME, charged(0, 1)], "at least 2"),
        ([SAMPLES, AgentStarted(TIME, 0), *submitted(0, [1.0]), charged(1, 1)], "the second of its conversation"),
        ([SAMPLES, *SAMPLED, AgentStarted(TIME, 2), charged(2, 1)], "overdraws"),
        ([SAMPLES, *SAMPLED, RunClosed(TIME, CloseReason.AGENT_ENDED)], "not budget_spent"),
        ([OPENED, charged(1)], "out of order"),
        ([OPENED, charged(0), charged(0)], "out of order"),
        ([OPENED, charged(0, key="k"), charged(1, key="k")], "charged twice"),
        ([OPENED, SubmissionCharged(TIME, 0, "a", (16,))], "outside the train split"),
        ([OPENED, SubmissionCharged(TIME, 0, "a", (-1,))], "outside the train split"),
        ([OPENED, SubmissionCharged(TIME, 0, "a", (0,), parent=0)], "names a parent that did not come before it"),
        ([OPENED, SubmissionCharged(TIME, 0, "a", (0,), parent=-2)], "names a parent that did not come before it"),
        ([OPENED, PolicyRestored(TIME, 0)], "restored that was never submitted"),
        # films
        ([OPENED, replace(charged(0), films=(0,))], "the films rule"),
        ([FILMED, replace(charged(0), films=(2,))], "the films rule"),
        ([FILMED, replace(charged(0), films=(1, 1))], "the films rule"),
        ([FILMED, replace(charged(0, 4), films=(0, 1, 2, 3))], "the films rule"),
        ([FILMED, replace(charged(0), films=(0, 1)), replace(charged(1), films=(0, 1))], "the films rule"),
        ([FILMED, *submitted(0, [1.0])[:-1], replace(published(0), filmed=1)], "More was filmed"),
        # episodes
        ([OPENED, trained(0, 0)], "no submission"),
        ([OPENED, charged(0), replace(trained(0, 0), submit_index=None)], "no submission"),
        ([OPENED, charged(0), trained(0, 0), trained(0, 0)], "played twice"),
        ([OPENED, charged(0), trained(0, 2)], "outside its rollout"),
        ([OPENED, charged(0), trained(0, -1)], "outside its rollout"),
        ([OPENED, charged(0), trained(0, 0, checkpoint="b")], "another checkpoint"),
        ([OPENED, charged(0), published(0, SubmissionStatus.INIT_ERROR), trained(0, 0)], "was published"),
        # publishing
        ([OPENED, published(0)], "never charged"),
        ([OPENED, charged(0), trained(0, 0), published(0)], "ok but unplayed"),
        ([OPENED, charged(0), trained(0, 0), published(0, SubmissionStatus.IMPORT_ERROR)], "but played"),
        ([OPENED, charged(0), published(0, SubmissionStatus.INTERRUPTED)], "interrupted"),
        ([OPENED, *submitted(0, [1.0]), published(0)], "published twice"),
        # the agent
        ([OPENED, AgentStarted(TIME, 1)], "out of order"),
        ([OPENED, AgentEnded(TIME, 0, "finished"), AgentEnded(TIME, 0, "finished")], "out of order"),
        ([*CLOSED, AgentStarted(TIME, 0)], "after the run closed"),
        ([OPENED, FinishAsked(TIME)], "played to its end"),
        ([MAY_FINISH, *BOTH, FinishAsked(TIME)], "was over"),
        ([MAY_FINISH, FinishAsked(TIME), FinishAsked(TIME)], "was over"),
        ([MAY_FINISH, FinishAsked(TIME), charged(0)], "had finished"),
        # closing
        ([OPENED, charged(0), RunClosed(TIME, CloseReason.AGENT_ENDED)], "was playing"),
        ([*CLOSED, RunClosed(TIME, CloseReason.BUDGET_SPENT)], "closed twice"),
        ([OPENED, RunClosed(TIME, CloseReason.BUDGET_SPENT)], "not agent_ended"),
        ([OPENED, *BOTH, RunClosed(TIME, CloseReason.AGENT_ENDED)], "not budget_spent"),
        ([MAY_FINISH, FinishAsked(TIME), RunClosed(TIME, CloseReason.AGENT_ENDED)], "not finish_asked"),
        ([*CLOSED, charged(2)], "after the run closed"),
        # validation
        ([OPENED, *BOTH, *validated("a", [1.0])], "not its time"),
        ([*CLOSED, *validated("c", [1.0])], "no candidate"),
        ([*CLOSED, *validated("a", [1.0, 2.0, 3.0])], "outside its rollout"),
        ([*CLOSED, validated("a", [1.0])[0], validated("a", [2.0])[0]], "played twice"),
        ([*SELECTED, *validated("a", [1.0])], "not its time"),
        # selection
        ([OPENED, *BOTH, CheckpointSelected(TIME, 1, "b", 3.5)], "not the time"),
        ([*VALIDATED[:-1], CheckpointSelected(TIME, 0, "a", 1.5)], "before validation was complete"),
        ([*VALIDATED, CheckpointSelected(TIME, 0, "a", 1.5)], "names another"),
        ([*VALIDATED, CheckpointSelected(TIME, 1, "a", 3.5)], "not its submission's"),
        ([*VALIDATED, CheckpointSelected(TIME, 1, "b", 3.6)], "not the played 3.5"),
        ([*VALIDATED, CheckpointSelected(TIME, -1, "b", 3.5)], "names another"),
        # held-out and the score
        ([*VALIDATED, *held_out("b", [1.0])], "not their time"),
        ([*SELECTED, *held_out("a", [1.0])], "was not selected"),
        ([*PLAYED[:-1], RunFinished(TIME, RunStatus.SCORED, 1.5, 0.5)], "before its held-out"),
        ([*PLAYED, RunFinished(TIME, RunStatus.SCORED, 2.1, AN_ERROR)], "not the held-out mean"),
        ([*PLAYED, RunFinished(TIME, RunStatus.SCORED, 2.0, 0.5)], "not the held-out mean"),
        ([*PLAYED, RunFinished(TIME, RunStatus.SCORED)], "not the held-out mean"),
        ([*PLAYED, RunFinished(TIME, RunStatus.SCORED, math.nan, AN_ERROR)], "not the held-out mean"),
        ([*PLAYED, RunFinished(TIME, RunStatus.NO_OK_SUBMIT)], "without a score"),
        ([*CLOSED, RunFinished(TIME, RunStatus.NO_OK_SUBMIT)], "without a score"),
        ([OPENED, RunFinished(TIME, RunStatus.NO_OK_SUBMIT)], "without a score"),
        (
            [OPENED, RunClosed(TIME, CloseReason.AGENT_ENDED), RunFinished(TIME, RunStatus.NO_OK_SUBMIT, 1.0)],
            "was scored",
        ),
        # order
        ([OPENED, OPENED], "opens its run twice"),
    ],
)
def test_what_breaks_a_rule_is_refused(events: list[Event], said: str) -> None:
    """Every event that the protocol forbids is refused with the rule that it breaks."""
    assert said in refused(*events)


@pytest.mark.parametrize("first", [charged(0), RunResumed(TIME), trained(0, 0)])
def test_a_journal_begins_with_an_opening(first: Event) -> None:
    """No other event can come first."""
    with pytest.raises(RecordError, match="does not begin"):
        fold([first])


def test_the_last_of_a_whole_run() -> None:
    """A whole run has a score, the mean of the selected checkpoint's held-out returns."""
    state = fold(whole_run())

    assert state.finished is not None
    assert (state.finished.score, state.finished.standard_error) == (2.0, AN_ERROR)


@pytest.mark.parametrize("place", range(1, len(whole_run())))
def test_a_state_is_a_pure_function(place: int) -> None:
    """An event that is refused leaves the state as it was, and so does one that is taken."""
    events = whole_run()
    state: RunState = fold(events[:place])
    after(state, events[place])

    assert fold(events[:place]) == state


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_returns_without_measure_can_be_scored(value: float) -> None:
    """A run whose returns are infinite ends, with no error to speak of."""
    play: Callable[[Event], Event] = lambda event: (  # noqa: E731 - a word for it
        replace(event, episode=episode(value)) if isinstance(event, EpisodePlayed) else event
    )
    events = [play(event) for event in whole_run()]
    state = fold([*events[:-5], CheckpointSelected(TIME, 1, "b", value), *events[-4:-1]])
    done = after(state, RunFinished(TIME, RunStatus.SCORED, value, math.nan))

    assert done.stage is Stage.FINISHED
