"""What a pack's simulator can't do to the machine that it plays on, and what it can't change of our own process."""

from pathlib import Path

import pytest

import unruly_pack
from evopolicygym.core.directories import state_directory
from evopolicygym.core.errors import SandboxError
from evopolicygym.packs.installation import InstalledPack, installed
from evopolicygym.sandbox.bwrap import PACK_FINDING, bwrap
from playground import Playground, local_executor, policy

pytestmark = pytest.mark.nightly

CASES = 2, 3


@pytest.fixture
def pack(monkeypatch: pytest.MonkeyPatch) -> InstalledPack:
    """Install the pack whose simulators misbehave."""
    return unruly_pack.lay(monkeypatch)


def _needs_bwrap() -> None:
    try:
        bwrap()
    except SandboxError as error:
        pytest.skip(str(error))


def _log(ground: Playground) -> str:
    return (ground.root / "log").read_text(encoding="utf-8", errors="replace")


def test_a_simulator_can_not_change_what_the_next_run_is_played_with(tmp_path: Path, pack: InstalledPack) -> None:
    """It writes into no pack, nor into our code, reads no secret, reaches no network and mounts nothing."""
    _needs_bwrap()
    state_directory().mkdir(parents=True)
    (state_directory() / "secret").write_text("hidden")
    with local_executor("bubblewrap", unruly_pack.spec("Poisoning-v0"), tmp_path) as ground:
        played = ground.play(policy(), *CASES)
        finding = ground.executor.info.findings[PACK_FINDING]

    assert [line for line in _log(ground).splitlines() if line.startswith(("REACHED", "tried"))] == [
        "tried at 5 places"
    ] * len(CASES)
    assert [one.episode.episode_return for one in played] == [3.0, 3.0]
    assert "no network" in finding
    assert installed(pack.directory.name) == pack
    assert list(tmp_path.rglob("poison*")) == []


def test_a_weaker_level_says_that_there_are_no_walls(tmp_path: Path, pack: InstalledPack) -> None:
    """Where the level isn't bubblewrap, the record says that a simulator plays with its user's rights."""
    with local_executor("process", unruly_pack.spec("Quiet-v0"), tmp_path) as ground:
        finding = ground.executor.info.findings[PACK_FINDING]

    assert pack.interpreter.exists()
    assert finding.startswith("plays with its user's rights")


@pytest.mark.usefixtures("pack")
def test_what_a_simulator_does_to_its_process_changes_no_episode(tmp_path: Path) -> None:
    """One that seeds numpy, has it raise, empties the environment and removes its directory plays as a quiet one."""
    trajectories = {}
    for name in ("Quiet-v0", "Meddling-v0"):
        place = tmp_path / name
        place.mkdir()
        with local_executor("process", unruly_pack.spec(name), place) as ground:
            played = ground.play(policy(), *CASES, *CASES)
            trajectories[name] = [one.episode.trajectory_sha256 for one in played]

    assert ground.repeated == []
    assert trajectories["Meddling-v0"] == trajectories["Quiet-v0"]
