"""Reference policies for tasks of packs: each holds a floor that random play clearly misses, in the real sandbox."""

from pathlib import Path

import pytest

from evopolicygym.agents.builtin.reference import write_reference
from evopolicygym.core.cases import PUBLIC_KEY, Split, derive
from evopolicygym.core.rollout import Recording, Rollout
from evopolicygym.core.task import TaskText
from evopolicygym.environments.versions import are_installed
from evopolicygym.runs.environment import resolve_environment
from evopolicygym.specs import pack_catalog
from installed_packs import installed_packs
from playground import local_executor

pytestmark = pytest.mark.nightly

CASES = 2
FLOORS = {
    "BabyAI-GoToLocal-v0": 0.7,
    "FrozenLake8x8-v1": 0.5,
    "MiniGrid-Dynamic-Obstacles-16x16-v0": 0.95,
    "MiniGrid-KeyCorridorS6R3-v0": 0.9,
    "MiniGrid-LavaCrossingS9N2-v0": 0.92,
    "MiniGrid-MemoryS17Random-v0": 0.97,
    "MiniGrid-MultiRoom-N6-v0": 0.4,
    "MiniGrid-ObstructedMaze-Full-v1": 0.93,
    "MountainCarContinuous-v0": 99.3,
    "AdroitHandRelocate-v1": 3000,
    "AntMaze_Large_Diverse_GR-v5": 300,
    "Hopper-v5": 950,
    "LunarLander-v3": 230,
    "Walker2d-v5": 950,
}
"""What the mean return on two train cases of the public split is at least."""
SLOW_FLOORS = {
    "ALE-Tetris-v5": 60.0,
    "BabyAI-BossLevel-v0": 0.85,
    "Meta-World-MT10": 3000,
    "NetHackScore-v0": 150,
    "dm_control-manipulator-bring_ball-v0": 50,
    "racetrack-v0": 1400.0,
}
"""Likewise, where an episode takes long or the pack has a Python of its own."""


def mean_return(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> float:
    """Play the first train cases of the public split; skip the test where the pack isn't installed."""
    found = pack_catalog.find(name)
    assert found is not None
    pack = found[0]
    if not pack.is_beside_us:
        installed_packs(monkeypatch, pack.name)
    elif not are_installed(pack.packages):
        pytest.skip(f"{pack.extra} is not installed")
    spec = resolve_environment(name, TaskText.TERSE)[0]
    system = place / "system"
    system.mkdir()
    write_reference(name, system)
    with local_executor("bubblewrap", spec, place) as ground:
        assert ground.executor.load(system, ground.context) is None
        jobs = ground.jobs(*derive(PUBLIC_KEY, name).seeds[Split.TRAIN][:CASES], recording=Recording.OUTPUT)
        rollout = Rollout(system, ground.context, jobs)
        episodes = [episode for *_, episode in ground.executor.play([rollout], lambda *_: None)]
    assert [episode.failure for episode in episodes if episode.failure] == []
    return sum(episode.episode_return for episode in episodes) / CASES


@pytest.mark.parametrize("name", sorted(FLOORS))
def test_holds_its_floor(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference scores what it is said to, on train cases and in the real sandbox."""
    assert mean_return(name, tmp_path, monkeypatch) > FLOORS[name]


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(SLOW_FLOORS))
def test_holds_its_floor_slowly(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, where it takes long."""
    assert mean_return(name, tmp_path, monkeypatch) > SLOW_FLOORS[name]
