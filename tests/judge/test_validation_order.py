"""In which order candidates play validation: the promising ones first, and nothing comes of it but that they are."""

from pathlib import Path

from evopolicygym.core.cases import Split
from evopolicygym.core.event import CloseReason, EpisodePlayed, Event, RunClosed
from evopolicygym.core.run import RunState, fold
from evopolicygym.judge.request import SubmitRequest
from evopolicygym.judge.rollouts import evaluate, finalize
from evopolicygym.records import journal, verify
from fakes import PATIENCE_S, TIME, OpenRun, open_run, opening, submitted

NAN = float("nan")
TRAINED = {"low": [1.0], "high": [3.0, 5.0], "none": [NAN], "same": [4.0], "middle": [2.0]}


def closed(trained: dict[str, list[float]]) -> list[Event]:
    """Return a run, up to its closing, in which each checkpoint had these train returns."""
    submissions = [submitted(place, values, name) for place, (name, values) in enumerate(trained.items())]
    return [opening(), *(event for one in submissions for event in one), RunClosed(TIME, CloseReason.AGENT_ENDED)]


def test_the_best_in_train_come_first() -> None:
    """Checkpoints are ordered by their mean train return, of equals the first submitted, what is no number last."""
    assert fold(closed(TRAINED)).promising == ("high", "same", "middle", "low", "none")


def test_all_submissions_of_a_checkpoint_count() -> None:
    """Where one checkpoint was submitted several times, the mean is over all of its train episodes."""
    events = [opening(), *submitted(0, [9.0], "a"), *submitted(1, [4.0], "b"), *submitted(2, [0.0, 0.0], "a")]

    assert fold(events).promising == ("b", "a")


def spent(run: OpenRun) -> None:
    """Spend the budget on policies of which the second is the best and the third the next best."""
    for policy, cases in (("1", "0-1"), ("3", "0-2"), ("2", "0-2")):
        run.write_policy(policy)
        run.session.published(run.session.accept(SubmitRequest(cases)).index).result(PATIENCE_S)
    run.session.close()


def validated_in(run: OpenRun) -> list[str]:
    """Return the checkpoints in the order in which they played validation, as the journal has it."""
    played = [one for one in journal.read(run.paths.journal).events if isinstance(one, EpisodePlayed)]
    return list(dict.fromkeys(one.checkpoint for one in played if one.split is Split.VALIDATION))


def told(state: RunState) -> tuple[object, ...]:
    """Return what comes of a run."""
    assert state.selected is not None
    returns = {(one.split, one.checkpoint): one.returns for one in state.hidden}
    return state.selected.submit_index, state.selected.validation_mean, state.held_out(), returns


def test_a_run_begun_in_another_order_ends_the_same(tmp_path: Path) -> None:
    """The promising play first; a run that had begun with the first submitted goes on and comes to the same result."""
    with open_run(tmp_path / "new", {}) as new:
        spent(new)
        finalize(new.rollouts)
    with open_run(tmp_path / "old", {}) as old:
        spent(old)
        evaluate(old.rollouts, Split.VALIDATION, old.session.state.checkpoints[:1])
    with open_run(tmp_path / "old") as old:
        finalize(old.rollouts)
    low, high, middle = new.session.state.checkpoints

    assert (validated_in(new), validated_in(old)) == ([high, middle, low], [low, high, middle])
    assert told(new.session.state) == told(old.session.state)
    assert [one for name in ("new", "old") for one in verify.findings(tmp_path / name) if not one.ok] == []
