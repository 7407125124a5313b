"""A run of an environment of its user's own says what one random episode shows to be wrong with its TOML file."""

from pathlib import Path

import pytest

from evopolicygym.api.play.run import spec_notes
from evopolicygym.specs.catalog import load

SPEC = """
id = "CartPole-v1"
family = "mine"
kind = "tuning"
max_steps = 20
objective = "{objective}"
reward = "r"
termination = "t"
observation = ["a", "b", "c", "d"]
action = ["left", "right"]
idle_action = {idle}
success = {{ rule = "info", key = "nope", meaning = "m" }}
"""


def test_what_is_wrong_is_a_note_each(tmp_path: Path) -> None:
    """Texts that are not written, a key of success that info lacks and no idle action are named, and nothing else."""
    (tmp_path / "mine.toml").write_text(SPEC.format(objective="TODO: this", idle=7))
    notes = list(spec_notes("mine.toml", load(tmp_path / "mine.toml")))

    assert [note.partition(":")[0] for note in notes] == [
        f"mine.toml, {part}" for part in ("texts", "success", "idle action")
    ]
    assert ["objective" in notes[0], "'nope'" in notes[1], "7" in notes[2]] == [True] * 3


@pytest.mark.parametrize("name", ["cartpole", "CartPole-v1"])
def test_nothing_is_looked_at_of_what_ships(name: str) -> None:
    """Only a file of the user's own is played beforehand."""
    assert list(spec_notes(name, load("cartpole"))) == []
