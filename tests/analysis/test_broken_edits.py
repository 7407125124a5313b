"""Broken versions and what mends them are one edit, whatever they were broken by: real runs, seen by ``diagnose``."""

from collections.abc import Callable
from pathlib import Path

import pytest

import evopolicygym
from players import GOOD

TUNED = GOOD.replace("obs[2] + obs[3]", "obs[2] + 2 * obs[3]")
SETTING = GOOD.replace("obs[2] + obs[3]", "3 * obs[2] + obs[3]")
OTHER = GOOD.replace("obs[2] + obs[3]", "obs[0] + obs[3]")
IMPORTS = "import nowhere\nfrom nowhere import some\nfrom nowhere.else_ import things\n"
"""More lines than the edit has."""
BREAKAGES: dict[str, Callable[[str], str]] = {
    "parenthesis": lambda policy: policy + "(",
    "import": lambda policy: IMPORTS + policy,
    "name": lambda policy: policy + "\nundefined_name\n",
    "no policy": lambda policy: policy.replace("class Policy", "class Polic"),
    "constructor": lambda policy: policy.replace("class Policy", "class Policy(1)"),
}


def edits(tmp_path: Path, *versions: str) -> list[tuple[str | None, str]]:
    """Submit versions one after the other; return the kind of each edit, and the remark on it."""

    def agent(session: evopolicygym.Session) -> None:
        for version in versions:
            session.submit(version, episodes=1)

    few = {"budget": len(versions), "validation": 2, "held_out": 1, "workers": 1}
    run = evopolicygym.run("cartpole", agent, split="public", isolation="none", runs=tmp_path, **few)
    found = evopolicygym.diagnose(run.path, only=["edits"])
    return [(row["edit"], row["remark"]) for row in found.records]


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_broken_edit_and_its_repair_are_one(tmp_path: Path, breakage: str) -> None:
    """The edit has the kind of the version that works, and what mends it is its repair."""
    broken = BREAKAGES[breakage](TUNED)

    assert edits(tmp_path, GOOD, broken, TUNED)[1:] == [("structural", "broken, mended by 2"), ("repair", "")]


def test_a_setting_stays_one(tmp_path: Path) -> None:
    """A misspelt import makes no other program of new settings."""
    first = GOOD.replace("obs[2] + obs[3]", "2 * obs[2] + obs[3]")
    kinds = edits(tmp_path, first, BREAKAGES["import"](SETTING), SETTING)

    assert kinds[1:] == [("parametric", "broken, mended by 2"), ("repair", "")]


def test_two_broken_in_a_row(tmp_path: Path) -> None:
    """A repair that is broken itself says so, and what mends both is a repair as well."""
    kinds = edits(tmp_path, GOOD, BREAKAGES["parenthesis"](TUNED), BREAKAGES["import"](TUNED), TUNED)

    assert kinds[1:] == [("structural", "broken, mended by 3"), ("repair", "broken"), ("repair", "")]


def test_the_first_version_is_broken(tmp_path: Path) -> None:
    """Then the edit is that of the starter."""
    assert edits(tmp_path, BREAKAGES["import"](GOOD), GOOD) == [("structural", "broken, mended by 1"), ("repair", "")]


def test_another_edit_repairs_nothing(tmp_path: Path) -> None:
    """A version that has nothing of the broken one is an edit of its own, and the broken one stays broken."""
    kinds = edits(tmp_path, GOOD, BREAKAGES["import"](GOOD.replace("obs[2]", "obs[1]")), OTHER)

    assert kinds[1:] == [("structural", "broken"), ("parametric", "")]
