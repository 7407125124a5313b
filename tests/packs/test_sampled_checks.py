"""A task of each family is checked as ``packs check`` does, and is what the check that ships says.

Packs with a Python of their own are looked for in a data directory for tests (``make packs``).
"""

import pytest

from evopolicygym.checks.pack import check
from evopolicygym.core.errors import SandboxError
from evopolicygym.environments.versions import are_installed
from evopolicygym.sandbox.bwrap import bwrap
from evopolicygym.specs import pack_catalog
from evopolicygym.specs.pack_catalog import shipped_record
from installed_packs import installed_packs

pytestmark = pytest.mark.nightly

SAMPLES = {
    "ale": "ALE-Tetris-v5-ram",
    "classic": "CartPole-v1",
    "dm_control": "dm_control-cartpole-swingup-v0",
    "flappy_bird": "FlappyBird-v0",
    "gymnasium": "Hopper-v5",
    "highway": "merge-v0",
    "jumanji": "jumanji-Snake-v1",
    "metaworld": "Meta-World-assembly-v3",
    "minigrid": "BabyAI-GoToRedBall-v0",
    "nle": "NetHackScore-v0",
    "pusht": "gym_pusht-PushT-v0",
    "robotics": "PointMaze_UMaze-v3",
    "vizdoom": "VizdoomBasic-v1",
}
FACTS = ("repeats", "max_steps", "observation", "action", "left")


def test_every_family_has_a_sample() -> None:
    """No family that can be played is left out."""
    packs = map(pack_catalog.load, pack_catalog.names())

    assert {pack.name for pack in packs if pack.tasks} == SAMPLES.keys()


@pytest.mark.parametrize("name", SAMPLES)
def test_a_task_of_the_family(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It plays, repeats and leaves nothing, and has the spaces and the limit that the catalogue says."""
    pack = pack_catalog.load(name)
    try:
        bwrap()
    except SandboxError as error:
        pytest.skip(str(error))
    if not pack.is_beside_us:
        installed_packs(monkeypatch, name)
    elif not are_installed(pack.packages):
        pytest.skip(f"{pack.extra} is not installed")
    (found,) = check(name, [SAMPLES[name]])
    record = shipped_record(name)
    recorded = record.task(SAMPLES[name]) if record else None

    assert found.ok, found.detail
    assert recorded is not None
    assert [found.more[fact] for fact in FACTS] == [
        list(value) if isinstance(value := getattr(recorded, fact), tuple) else value for fact in FACTS
    ]
