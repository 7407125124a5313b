"""The draft of an environment's TOML can be played as it is, and says what is left to write."""

import os
import sys
import tomllib
from pathlib import Path

import pytest

import own_pack
from evopolicygym.checks.environment import examine
from evopolicygym.core.errors import EnvironmentFault, UsageError
from evopolicygym.environments.draft import GUESSED_STEPS, draft, file_name
from evopolicygym.specs import catalog
from places import SUPPORT
from shell import Shell

FIXED = {"simulators:Composite-v0"}
"""Simulators that play the same episode whatever the seed."""


@pytest.mark.parametrize(
    ("asked", "imports"),
    [
        ("CartPole-v1", ()),
        ("Pendulum-v1", ()),
        ("FrozenLake-v1", ()),
        ("Taxi-v4", ()),
        ("Blackjack-v1", ()),
        ("simulators:Composite-v0", ()),
        ("simulators:Drawn-v0", ()),
        ("MiniGrid-DoorKey-5x5-v0", ("minigrid",)),
    ],
)
def test_a_draft_passes_the_check(
    asked: str, imports: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the spaces are, the check finds nothing wrong with the spec that is drafted."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT), prepend=os.pathsep)
    file = tmp_path / file_name(asked)
    file.write_text(draft(asked, imports).text, encoding="utf-8")
    found = list(examine(file))

    assert [one.name for one in found if not one.ok] == ["cases differ"] * (asked in FIXED)
    assert any("to be written" in one.detail for one in found)


def test_what_is_left_to_write() -> None:
    """Each text that nobody wrote is marked, and named with how many there are; what was guessed is named too."""
    drafted = draft("CartPole-v1")
    document = tomllib.loads(drafted.text)

    assert drafted.to_write == ("objective", "reward", "termination", "observation (4)", "action (2)")
    assert document["observation"][0] == "TODO: element 0, from -4.8 to 4.8"
    assert (document["max_steps"], document["kind"], drafted.to_check) == (500, "tuning", ("idle_action = 0",))
    assert "packages" not in document


def test_what_the_simulator_says_is_taken() -> None:
    """Names of actions, the limit, the distribution and the no-op are what the simulator tells, not left to write."""
    document = tomllib.loads(draft("MiniGrid-DoorKey-5x5-v0", ("minigrid",)).text)

    assert document["action"] == ["left", "right", "forward", "pickup", "drop", "toggle", "done"]
    assert (document["packages"], document["max_steps"]) == (["minigrid"], 250)


def test_what_a_pack_says_is_taken() -> None:
    """An id that a pack has needs no module, and its success rule and its limit are the pack's."""
    success = tomllib.loads(draft("MiniGrid-DoorKey-5x5-v0").text)["success"]
    limited = tomllib.loads(draft("CliffWalking-v1").text)

    assert success == {"rule": "positive_return", "meaning": "the mission was done"}
    assert (limited["max_steps"], "pack" in limited) == (200, False)


def test_an_id_of_a_pack_of_its_own_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What plays on the Python of its pack is drafted from what its simulator says there, and can be loaded."""
    own_pack.lay(monkeypatch)
    drafted = draft("Far-v0")
    (tmp_path / "far.toml").write_text(drafted.text, encoding="utf-8")
    spec = catalog.load(tmp_path / "far.toml")

    assert (spec.pack, spec.imports, spec.packages) == ("faraway", ("far_away",), ("gymnasium",))
    assert "far_away" not in sys.modules


def test_the_atari_no_op() -> None:
    """Atari's actions have names, and its idle action is the one that is called so."""
    pytest.importorskip("ale_py", reason="ale_py is not installed; make test-all installs it")
    document = tomllib.loads(draft("ale_py:ALE/Pong-v5", (), {"obs_type": "ram"}).text)

    assert document["action"][document["idle_action"]] == "NOOP"
    assert (document["packages"], document["max_steps"]) == (["ale-py"], GUESSED_STEPS)
    assert document["arguments"] == {"obs_type": "ram"}


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("FlappyBird-v0", "flappy_bird.toml"),
        ("ale_py:ALE/SpaceInvaders-v5", "space_invaders.toml"),
        ("MiniGrid-DoorKey-8x8-v0", "mini_grid_door_key_8x8.toml"),
    ],
)
def test_names_of_files(asked: str, name: str) -> None:
    """A file is called after the id, as environments are named here."""
    assert file_name(asked) == name


def test_what_can_not_be_drafted() -> None:
    """An id that nobody registered and arguments that the simulator refuses are said, each by its own error."""
    with pytest.raises(UsageError, match="NoSuchThing-v0"):
        draft("NoSuchThing-v0")
    with pytest.raises(EnvironmentFault, match=r"CartPole-v1.*TypeError.*colour"):
        draft("CartPole-v1", (), {"colour": "red"})


def test_the_verb(shell: Shell, tmp_path: Path) -> None:
    """A draft is written under the name that is asked for, with what is left to do; a file is never overwritten."""
    file = tmp_path / "mine.toml"
    told = shell.printed("environments", "add", "Pendulum-v1", "-o", file, "--make", "g=9.81")
    again = shell("environments", "add", "Pendulum-v1", "-o", file)

    assert catalog.load(file).arguments == {"g": 9.81}
    assert "observation (3), action" in told
    assert f"check environment {file}" in told
    assert told.splitlines()[-1].split() == ["next", "evopolicygym", "anchors", str(file)]
    assert (again.code, file.name in again.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("NoSuchThing-v0",), "--import"),
        (("CartPole-v1", "--import", "no_such_module"), "no_such_module"),
        (("CartPole-v1", "--make", "colour"), "NAME=VALUE"),
        (("CartPole-v1", "-o", "mine.txt"), ".toml"),
    ],
)
def test_what_the_verb_refuses(
    words: tuple[str, ...], said: str, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can't be drafted is an error that says what would work, and leaves no file."""
    monkeypatch.chdir(tmp_path)
    left = shell("environments", "add", *words)

    assert (left.code, said in left.err) == (2, True), left.err
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []
