"""A task of each family is checked as ``packs check`` does, and is what the check that ships says.

Packs with a Python of their own are looked for in a data directory for tests (``make packs``).
"""

from dataclasses import replace

import pytest

from evopolicygym.checks.pack import check
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import SandboxError
from evopolicygym.core.task import TaskText
from evopolicygym.environments.versions import are_installed
from evopolicygym.runs.anchors import AnchorPlayer, starter_policy
from evopolicygym.runs.environment import resolve_environment
from evopolicygym.sandbox.bwrap import bwrap
from evopolicygym.specs import pack_catalog
from evopolicygym.specs.pack_catalog import shipped_record
from installed_packs import installed_packs

pytestmark = pytest.mark.nightly

SAMPLES = {
    "ale": "ALE-Tetris-v5-ram",
    "classic": "CartPole-v1",
    "craftax": "craftax-Craftax-Symbolic-v1",
    "crafter": "crafter-CrafterSymbolic-v1",
    "dm_control": "dm_control-cartpole-swingup-v0",
    "flappy_bird": "FlappyBird-v0",
    "flatland": "flatland-Trains-v0",
    "game_2048": "gymnasium_2048-TwentyFortyEight-v0",
    "grid2op": "grid2op-Attack-v0",
    "gymnasium": "Hopper-v5",
    "highway": "merge-v0",
    "jsbgym": "C172-TurnHeadingControlTask-Shaping.STANDARD-NoFG-v0",
    "jumanji": "jumanji-Snake-v1",
    "kore": "kore-Balanced-v0",
    "metaworld": "Meta-World-assembly-v3",
    "minihack": "MiniHack-River-v0",
    "minigrid": "BabyAI-GoToRedBall-v0",
    "nle": "NetHackScore-v0",
    "procgen": "procgen-chaser",
    "pusht": "gym_pusht-PushT-v0",
    "robosuite": "robosuite-Lift",
    "robotics": "PointMaze_UMaze-v3",
    "simglucose": "simglucose-Day-v0",
    "vizdoom": "VizdoomBasic-v1",
}
CASES, STEPS = 4, 200
FACTS = ("repeats", "max_steps", "observation", "action", "left")


def test_every_family_has_a_sample() -> None:
    """No family that can be played is left out."""
    packs = map(pack_catalog.load, pack_catalog.names())

    assert {pack.name for pack in packs if pack.tasks} == SAMPLES.keys()


@pytest.mark.parametrize("name", [name for name in SAMPLES if not pack_catalog.load(name).is_beside_us])
def test_two_workers_play_as_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same cases come to the same episodes, whichever process of the pack plays them, and after which others."""
    installed_packs(monkeypatch, name)
    spec = resolve_environment(SAMPLES[name], TaskText.FULL, (), {})[0]
    spec = replace(spec, max_steps=min(spec.max_steps, STEPS))
    found = []
    for workers in (1, 2):
        with AnchorPlayer(spec, workers) as player:
            played = player.play(starter_policy(), Split.HELD_OUT, CASES, lambda _: None)
        found.append([(one.length, one.episode_return) for one in played.episodes])

    assert found[0] == found[1]


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
