"""What a policy or a program of one run does to files tells nobody of another run anything."""

import pytest

import wider_filters
from enclosed import needs_bubblewrap
from evopolicygym.checks.channel_search.across import OUTSIDE, POLICY, PROGRAM, WAYS, CarrierTrial, search_across
from evopolicygym.sandbox.overlays import why_shared
from evopolicygym.specs.catalog import load

pytestmark = [needs_bubblewrap, pytest.mark.skipif(bool(why_shared()), reason=why_shared())]

QUICK = (("watches", POLICY, PROGRAM), ("locks", PROGRAM, OUTSIDE), ("times", POLICY, PROGRAM))


def found(level: str, *ways: tuple[str, str, str]) -> list[CarrierTrial]:
    """Return the channels of a level."""
    return [trial for trial in search_across(level, load("cartpole"), ways) if trial.is_channel]


def test_quick_carriers_carry_nothing() -> None:
    """P70, A26: watches, locks and times carry nothing from one run to another, nor outside."""
    assert found("bubblewrap", *QUICK) == []


@pytest.mark.nightly
def test_no_carrier_carries_anything() -> None:
    """P70, A26: pages in memory, watches, locks, leases, times and numbers carry nothing across runs and roles."""
    assert found("bubblewrap", *WAYS) == []


def test_shared_files_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were files the machine's own, the search would find them to carry what a policy opens and a program locks."""
    monkeypatch.setenv("PYTHONPATH", wider_filters.__file__.rpartition("/")[0])
    ways = [("watches", POLICY, PROGRAM), ("locks", PROGRAM, OUTSIDE)]
    with wider_filters.shared_files():
        channels = found("wider_filters:SharedFiles", *ways)

    assert [(trial.carrier, trial.sender, trial.reader) for trial in channels] == ways
