"""Every attack, submitted to a real judge: its status, its charge, what the agent may read of it, what it leaves."""

from collections.abc import Iterator

import pytest

from attacked import AttackedRun, attacked_run
from evopolicygym.checks.attack_suite.attack import Attack, attacks

pytestmark = pytest.mark.needs_root


@pytest.fixture(scope="module")
def walled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedRun]:
    """A run behind bubblewrap that all attacks of this file are submitted to."""
    with attacked_run("bubblewrap", tmp_path_factory.mktemp("walled")) as run:
        yield run


@pytest.mark.parametrize("hostile", attacks(), ids=lambda one: one.id)
def test_attack(walled: AttackedRun, hostile: Attack) -> None:
    """An attack comes to its safe outcome, is charged once, shows and leaves nothing; the next policy plays on."""
    walled.assert_held(hostile)
