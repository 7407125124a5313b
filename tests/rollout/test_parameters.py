"""Parameters that a policy declares, set for one checkpoint alone."""

import json
from pathlib import Path

import pytest

from evopolicygym.core.errors import RequestRefused
from evopolicygym.core.task import Limits
from evopolicygym.rollout.checkpoint import capture

DECLARED = {"speed": 4.6, "steps": 3, "careful": True, "mode": "plain", "table": [1, 2]}


@pytest.fixture
def system(tmp_path: Path) -> Path:
    directory = tmp_path / "system"
    directory.mkdir()
    (directory / "policy.py").write_text("class Policy: ...")
    (directory / "parameters.json").write_text(json.dumps(DECLARED))
    return directory


def take(system: Path, **settings: bool | float | str) -> Path:
    store = system.parent / "checkpoints"
    return store / capture(system, store, Limits(), settings=settings)


def test_a_checkpoint_holds_what_was_set(system: Path) -> None:
    """The copy has the new values, the rest as it was, and the workspace is left as it is."""
    before = (system / "parameters.json").read_bytes()
    taken = take(system, speed=5, careful=False)

    assert json.loads((taken / "parameters.json").read_text()) == {**DECLARED, "speed": 5, "careful": False}
    assert (system / "parameters.json").read_bytes() == before


def test_what_is_set_names_the_checkpoint(system: Path) -> None:
    """Other values are another checkpoint; the values that the file has already are the same one."""
    names = {take(system).name, take(system, speed=4.6).name, take(system, speed=5).name, take(system, speed=6).name}

    assert len(names) == 3


def test_nothing_else_of_the_file_changes(system: Path) -> None:
    """Spaces, order and what is not set stay as they were written, so that a difference shows what was set."""
    written = '{"a" : {"speed": 1},\n  "speed":4.60,"mode": "pl\\u0061in" , "list": [1,  2]}\n'
    (system / "parameters.json").write_text(written)
    taken = (take(system, speed=5, mode="fast") / "parameters.json").read_text()

    assert taken == '{"a" : {"speed": 1},\n  "speed":5,"mode": "fast" , "list": [1,  2]}\n'


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"steps": 3.5}, "steps is a whole number in parameters.json, so it can't be set to 3.5"),
        ({"sped": 5}, "declares no parameter 'sped'; it declares careful, mode, speed, steps, table"),
        ({"speed": "fast"}, "speed is a number in parameters.json, so it can't be set to 'fast'"),
        ({"careful": 1}, "careful is true or false"),
        ({"table": 1}, "neither a number nor a text"),
    ],
)
def test_what_can_t_be_set(system: Path, settings: dict[str, bool | float | str], said: str) -> None:
    """What is not declared, or has another kind, is refused with what would work, and nothing is left behind."""
    with pytest.raises(RequestRefused, match=said):
        take(system, **settings)

    assert list((system.parent / "checkpoints").iterdir()) == []


@pytest.mark.parametrize(
    "content", [b"[1, 2]", b"{", b'{"a": 1, "a": 2}', b'{"a": NaN}', b"\xff", b'{"a": 1}' + b" " * (1 << 16)]
)
def test_a_file_that_declares_nothing(system: Path, content: bytes) -> None:
    """A file that is no strict JSON object of a bounded size is refused where some of it is set, and else taken."""
    (system / "parameters.json").write_bytes(content)

    with pytest.raises(RequestRefused, match=r"parameters\.json"):
        take(system, a=3)
    assert (take(system) / "parameters.json").read_bytes() == content


def test_no_file_at_all(system: Path) -> None:
    """Where there is no file, it is said how to declare parameters."""
    (system / "parameters.json").unlink()

    with pytest.raises(RequestRefused, match=r"holds no parameters\.json; write it"):
        take(system, speed=5)
