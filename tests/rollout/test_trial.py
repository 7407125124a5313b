"""A policy that is checked: constructed and asked for one action in its sandbox, on no case."""

from collections.abc import Iterator

import pytest

from evopolicygym.core.rollout import FailureReason
from evopolicygym.core.submission import SubmissionStatus
from playground import Playground, one_worker, policy
from simulators import spec


@pytest.fixture(scope="module", params=["bubblewrap", "process"])
def yard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    with one_worker(request.param, spec("Plain"), tmp_path_factory.mktemp("yard")) as ground:
        yield ground


def test_a_policy_that_works(yard: Playground) -> None:
    """What works is ok, and what it printed comes back."""
    trial = yard.check(policy("print('thinking'); return self.still"))

    assert (trial.status, trial.error, trial.failure) == ("ok", None, None)
    assert trial.stdout == "thinking\n"


def test_a_policy_that_can_t_be_loaded(yard: Playground) -> None:
    """What can't be loaded has the status that its submission would have."""
    trial = yard.check("import nothing_of_this_name")

    assert trial.status == SubmissionStatus.IMPORT_ERROR
    assert trial.error is not None
    assert "nothing_of_this_name" in trial.error.traceback


def test_how_long_it_took(yard: Playground) -> None:
    """A trial says how long it took to be constructed and to act, as far as it came to that."""
    fine, broken = yard.check(policy()), yard.check("1 / 0")

    assert fine.load_s
    assert fine.act_s
    assert (broken.load_s, broken.act_s) == (None, None)


@pytest.mark.parametrize(
    ("act", "reason"), [("return 1 / 0", FailureReason.ERROR), ("return 'up'", FailureReason.INVALID_ACTION)]
)
def test_a_policy_that_fails_in_act(yard: Playground, act: str, reason: FailureReason) -> None:
    """What raises or returns no action has failed, with its reason."""
    trial = yard.check(policy(act))

    assert trial.status == "failed"
    assert trial.failure is not None
    assert trial.failure.reason is reason


def test_a_trial_shows_nothing_of_a_case(yard: Playground) -> None:
    """What a policy sees while it is checked is the same each time, and the first observation of no case."""
    show = policy("print(obs.tolist()); return self.still")
    seen = {yard.check(show).stdout for _ in range(2)}
    cases = {(one.directory / "stdout.txt").read_text().splitlines()[0] for one in yard.play(show, *range(20))}

    assert len(seen) == 1
    assert not {one.strip() for one in seen} & cases
