"""What the level without namespaces promises: attacks under limits, Landlock and seccomp alone, before a real judge."""

from collections.abc import Iterator

import pytest

from attacked import AttackedRun, attacked_run
from evopolicygym.checks.sandbox import Attack, attacks
from evopolicygym.sandbox.backends.process import Backend

pytestmark = pytest.mark.nightly

PROMISED = [one for one in attacks() if one.guarantees <= Backend.guarantees]
BY_THE_SANDBOX = [one for one in PROMISED if one.guarantees]
"""Held by what a process gives up, not by the watch that every level has."""


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedRun]:
    """A run at level process that all attacks of this file are submitted to."""
    with attacked_run("process", tmp_path_factory.mktemp("limited")) as run:
        if run.session.state.opened.findings["landlock"] == "not in this kernel":
            pytest.skip("this kernel has no Landlock")
        if run.session.state.opened.findings["seccomp"] != "on":
            pytest.skip("libseccomp is not installed")
        yield run


@pytest.mark.parametrize("hostile", BY_THE_SANDBOX, ids=lambda one: one.id)
def test_attack(limited: AttackedRun, hostile: Attack) -> None:
    """An attack that the level promises to hold comes to its whole safe outcome."""
    limited.assert_held(hostile)


@pytest.mark.nightly
@pytest.mark.parametrize("hostile", [one for one in PROMISED if one not in BY_THE_SANDBOX], ids=lambda one: one.id)
def test_attack_on_the_watch(limited: AttackedRun, hostile: Attack) -> None:
    """What the watch over every policy holds, it holds at this level too."""
    limited.assert_held(hostile)
