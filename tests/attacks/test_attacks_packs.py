"""Attacks by policies of a pack whose environments play on a Python of its own: they reach no more than any policy."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import own_pack
from attacked import AttackedRun, attacked_run
from evopolicygym.checks.sandbox import Attack, attacks
from evopolicygym.core.task import EnvironmentSpec, TaskText
from evopolicygym.runs.environment import resolve_environment
from installed_packs import installed_packs

pytestmark = pytest.mark.nightly

REACHING = [one for one in attacks() if one.guarantees]
"""What the sandbox holds; the watch over a policy's time and words is the same wherever its environment plays."""
FEW = 20
"""Steps of an episode: attacks play no game."""


@pytest.fixture(scope="module", params=["faraway", "ale"])
def walled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedRun]:
    """A run of a task of a pack behind bubblewrap that all attacks of this file are submitted to."""
    root = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(root / "data"))
        with attacked_run("bubblewrap", root, environment=_laid(request.param, patch)) as run:
            yield run


@pytest.fixture(autouse=True)
def _packs(walled: AttackedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have packs looked for where the run found them, also by a worker in the place of another."""
    monkeypatch.setenv("XDG_DATA_HOME", str(Path(walled.decoys.addresses["packs"]).parents[1]))


def _laid(pack: str, patch: pytest.MonkeyPatch) -> EnvironmentSpec:
    """Have a pack installed and return the spec of one of its tasks; skip the test where it can't be."""
    if pack == "ale":
        installed_packs(patch, pack)
        return replace(resolve_environment("ALE/Tetris-v5", TaskText.TERSE)[0], max_steps=FEW)
    own_pack.lay(patch)
    return resolve_environment("Far-v0", TaskText.TERSE)[0]


@pytest.mark.parametrize("hostile", REACHING, ids=lambda one: one.id)
def test_attack(walled: AttackedRun, hostile: Attack) -> None:
    """An attack comes to its safe outcome, is charged once, shows and leaves nothing; the next policy plays on."""
    walled.assert_held(hostile)
