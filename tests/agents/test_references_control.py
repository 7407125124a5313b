"""Reference policies for gym and MuJoCo: each plays behind a real wall, by the rules, and no worse than it should."""

from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.agents.builtin.reference import write_reference
from evopolicygym.core.cases import PUBLIC_KEY, Split, derive
from evopolicygym.core.rollout import Episode, Rollout
from evopolicygym.specs import catalog
from playground import one_worker

pytestmark = pytest.mark.nightly

SHORT = 40
CASES = 2
FLOORS = {
    "acrobot": -65,
    "continuous_car": 99.3,
    "reacher": -8,
    "half_cheetah": 3900,
    "ant": 2400,
    "pusher": -48,
}
SLOW_FLOORS = {"bipedal_walker": 285, "car_racing": 700}


def play(name: str, place: Path, cases: int, steps: int | None = None) -> list[Episode]:
    """Play the first public train cases in full, or their first steps."""
    spec = catalog.load(name)
    seeds = derive(PUBLIC_KEY, name).seeds[Split.TRAIN][:cases]
    system = place / "system"
    system.mkdir()
    write_reference(name, system)
    with one_worker("bubblewrap", replace(spec, max_steps=steps or spec.max_steps), place) as ground:
        assert ground.executor.load(system, ground.context) is None
        rollout = Rollout(system, ground.context, ground.jobs(*seeds))
        return [episode for *_, episode in ground.executor.play([rollout], lambda *_: None)]


@pytest.mark.parametrize("name", sorted(FLOORS | SLOW_FLOORS))
def test_plays_by_the_rules(name: str, tmp_path: Path) -> None:
    """Loads and acts in the sandbox; every action can be read, and none makes the policy fail."""
    (episode,) = play(name, tmp_path, 1, SHORT)
    assert episode.failure is None
    assert episode.length == SHORT


@pytest.mark.parametrize("name", sorted(FLOORS))
def test_holds_its_floor(name: str, tmp_path: Path) -> None:
    """Scores no less than a stated floor on public train cases: a change of a policy or its numbers is noticed."""
    returns = [episode.episode_return for episode in play(name, tmp_path, CASES)]
    assert sum(returns) / CASES > FLOORS[name], returns


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(SLOW_FLOORS))
def test_holds_its_floor_slowly(name: str, tmp_path: Path) -> None:
    """As above, where an episode takes long."""
    returns = [episode.episode_return for episode in play(name, tmp_path, CASES)]
    assert sum(returns) / CASES > SLOW_FLOORS[name], returns
