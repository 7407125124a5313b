"""What the command line tells of environments, and of parts that are checked."""

import json
import re
from pathlib import Path

import pytest

from evopolicygym.specs import catalog, pack_catalog
from shell import ESCAPE, Shell


def test_environments(shell: Shell) -> None:
    """Every environment is listed, with its anchors, in full on a terminal of 80 columns."""
    left = shell("environments")

    assert left.code == 0
    assert "…" not in left.out
    assert re.search(r"half_cheetah .* -285\.13 .* 5,367\.32", left.out)
    assert all(re.search(rf"^ *{name} ", left.out, re.MULTILINE) for name in catalog.names())
    assert ESCAPE not in left.out


def test_environments_in_json(shell: Shell) -> None:
    """With --json the whole specs are printed."""
    found = shell.json("environments")

    assert catalog.names() == [one["name"] for one in found]
    assert all(one["objective"] and one["max_steps"] for one in found)


def test_all_tasks_are_listed(shell: Shell) -> None:
    """With --all the tasks of packs stand below the specs, in JSON too."""
    listed, found = shell("environments", "--all").out, shell.json("environments", "--all")
    names = [*catalog.names(), *(task.name for pack in pack_catalog.readable() for task in pack.tasks)]

    assert names == [document["name"] for document in found]
    assert len(names) > 700
    assert set(names) <= set(listed.split())


def test_check_environment(shell: Shell) -> None:
    """A part that keeps its contract leaves with 0."""
    found = shell.json("check", "environment", "cartpole")

    assert found["ok"]
    assert all(one["ok"] for one in found["findings"])


def test_check_of_a_part_that_fails(shell: Shell, tmp_path: Path) -> None:
    """A part that breaks its contract exits with 1 and says where."""
    good = Path(catalog.__file__).with_name("cartpole.toml")
    (tmp_path / "mine.toml").write_text(good.read_text().replace("observation = [", 'observation = [\n"more",'))
    left = shell("check", "environment", tmp_path / "mine.toml")

    told = shell("check", "environment", tmp_path / "mine.toml", "--json")

    assert (left.code, told.code) == (1, 1)
    assert "FAILED" in left.out
    assert json.loads(told.out)["ok"] is False
    assert [one["name"] for one in json.loads(told.out)["findings"] if not one["ok"]] == ["observation texts"]


@pytest.mark.parametrize(
    ("words", "cause", "step"),
    [
        (("environments", "cartpole"), "got 'cartpole'", "evopolicygym check environment cartpole"),
        (("environments", "add", "cartpole"), "cartpole has a spec", "evopolicygym environments add CartPole-v1"),
        (("environments", "add", "Nope-v0"), "No environment is registered as 'Nope-v0'", "--import MODULE"),
        (("check", "environment"), "Missing NAME", "evopolicygym check environment acrobot"),
        (("check", "cartpole"), "no kind of check named 'cartpole'", "evopolicygym check KIND cartpole"),
        (("new", "environment"), "Missing NAME", "evopolicygym new environment my_environment"),
    ],
)
def test_a_wrong_call_says_the_cause_and_a_step(
    words: tuple[str, ...], cause: str, step: str, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words that a newcomer tries are answered with what is wrong with them, and with a command that works."""
    monkeypatch.chdir(tmp_path)
    left = shell(*words)

    assert left.code == 2
    assert cause in left.err
    assert step in left.err
