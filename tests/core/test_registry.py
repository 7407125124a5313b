"""Names to things: what answers is found late, what doesn't is named with what would."""

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from evopolicygym import core
from evopolicygym.agents.base import AGENTS
from evopolicygym.core import registry
from evopolicygym.core.errors import MissingExtra, UnknownName, UsageError
from evopolicygym.core.registry import Registry

ROOM = Registry("score", "evopolicygym.core", "evopolicygym.nothing", "estimate")


def test_a_name_is_a_files_name() -> None:
    """A folder's files are its names, all of them."""
    assert set(ROOM.names()) == {file.stem for file in Path(core.__file__).parent.glob("*.py")} - {"__init__"}


def test_a_name_is_loaded() -> None:
    """A name stands for the attribute of its module."""
    from evopolicygym.core.score import estimate

    assert estimate is ROOM.load("score")


def test_an_unknown_name_is_answered_with_the_known() -> None:
    """Who asks for what is not there is told what is near, and what there is."""
    with pytest.raises(UnknownName, match=r"'scor'.*'score'.*agent, beneath, cases, causes"):
        ROOM.load("scor")


@pytest.mark.parametrize("name", ["math:nothing", "no_such_module:x", ":x", ".relative:x", "math:"])
def test_what_is_named_from_outside_must_be_importable(name: str) -> None:
    """A name from outside that can't be loaded is refused with the form that would do."""
    with pytest.raises(UsageError, match=r"package\.module:Class"):
        ROOM.load(name)


def test_a_name_from_outside() -> None:
    """package.module:Class needs no file of ours."""
    import math

    assert math.sqrt is ROOM.load("math:sqrt")


def test_entry_points_add_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another distribution's entry point is a name like any other."""
    point = EntryPoint("root", "math:sqrt", "evopolicygym.nothing")
    monkeypatch.setattr(registry, "_entry_points", lambda _: EntryPoints([point]))

    assert "root" in ROOM.names()
    assert ROOM.load("root")(9.0) == 3.0


def test_an_entry_point_that_is_broken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken entry point is the other distribution's fault, told in a sentence."""
    point = EntryPoint("root", "no_such_module:x", "evopolicygym.nothing")
    monkeypatch.setattr(registry, "_entry_points", lambda _: EntryPoints([point]))

    with pytest.raises(UsageError, match="no_such_module"):
        ROOM.load("root")


def test_a_missing_dependency_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module whose dependency is not installed tells how to install it."""
    monkeypatch.setitem(sys.modules, "evopolicygym.core.score", None)

    with pytest.raises(MissingExtra, match=r"pip install 'evopolicygym\[score\]'"):
        ROOM.load("score")


def test_nothing_is_imported_to_list_names() -> None:
    """Listing a room reads no file of it."""
    program = (
        "import sys; from evopolicygym.agents.base import AGENTS; AGENTS.names();"
        "print([name for name in sys.modules if name.startswith('evopolicygym.agents.')])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "['evopolicygym.agents.base', 'evopolicygym.agents.builtin']"


def test_the_agents_contract_is_no_agent() -> None:
    """What holds a room together is not one of its names."""
    assert {"base", "referee"}.isdisjoint(AGENTS.names())
