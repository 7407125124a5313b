"""Packs of other distributions: found by their entry points, or by the path of a file; none of them hinders another."""

from pathlib import Path

import pytest

import evopolicygym
import own_pack
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.packs.installation import needed
from evopolicygym.specs import pack_catalog
from shell import Shell

pytestmark = pytest.mark.nightly

ENTRY_POINTS = f"""
[evopolicygym.packs]
{own_pack.NAME} = brought
no_toml = brought
no_file = brought
no_module = not_there
no_path = brought.odd:SEVEN
raising = brought.raising:FILE
../up = brought
ale = brought
"""


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a distribution that brings a pack that is well, and some that are not; return its package."""
    package, metadata = tmp_path / "site" / "brought", tmp_path / "site" / "brought-1.dist-info"
    for directory in (package, metadata):
        directory.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('nobody is to import this')\n")
    (package / f"{own_pack.NAME}.toml").write_text(own_pack.FILE)
    (package / "no_toml.toml").write_text("title =")
    (package / "ale.toml").write_text(own_pack.FILE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(package.parent)
    pack_catalog._of_name.cache_clear()
    return package


@pytest.mark.usefixtures("brought")
def test_a_pack_with_a_python_of_its_own(tmp_path: Path) -> None:
    """A pack that another distribution brings plays on its own Python, and its package is never imported."""
    own_pack.lay_python()
    run = evopolicygym.run("Far-v0", "random", runs=tmp_path, budget=2, validation=1, held_out=2)

    assert run.score is not None


@pytest.mark.usefixtures("brought")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_toml", "is not TOML"),
        ("no_file", "can't be read: No such file"),
        ("no_module", "No module named 'not_there'"),
        ("no_path", "nobody is to import this"),
        ("../up", "A pack can't be called '../up'"),
    ],
)
def test_a_broken_pack_says_why(name: str, why: str) -> None:
    """A pack that can't be read says so where it is asked for, and in the listing, and hinders no other."""
    with pytest.raises(UsageError) as refusal:
        pack_catalog.load(name)

    assert why in str(refusal.value)
    assert str(refusal.value) in {one.reason for one in pack_catalog.unreadable()}
    assert pack_catalog.find("Far-v0") is not None


@pytest.mark.usefixtures("brought")
def test_a_pack_that_ships_keeps_its_name() -> None:
    """An outside pack of a shipped one's name is left out, and the listing says whose it is."""
    (found,) = [one for one in pack_catalog.unreadable() if one.name == "ale"]

    assert pack_catalog.load("ale").family == "atari"
    assert found.reason == "The pack 'ale' of brought is left out: a pack that ships has that name."


@pytest.mark.usefixtures("brought")
def test_the_listing_has_both(shell: Shell) -> None:
    """What is well stands in the table, what is broken below it with its reason."""
    listed = shell("packs")

    assert f"{own_pack.NAME} " in listed.out
    assert "The pack 'no_toml' is not TOML" in listed.out
    assert listed.code == 0


def test_a_file_is_a_pack(tmp_path: Path, shell: Shell) -> None:
    """A file that no distribution brings yet is shown, and refusals name it as it was asked for."""
    file = tmp_path / "walks.toml"
    file.write_text(own_pack.FILE)
    shown = shell("packs", "show", file)
    with pytest.raises(UsageError) as refusal:
        needed(pack_catalog.load(str(file)))

    assert "Far-v0" in shown.out
    assert f"evopolicygym packs install {file}" in str(refusal.value)


def test_a_task_of_a_file_is_played(tmp_path: Path) -> None:
    """A file's task is named behind the file; one that it doesn't have is refused with those that it has."""
    own_pack.lay_python()
    file = tmp_path / f"{own_pack.NAME}.toml"
    file.write_text(own_pack.FILE)
    sizes = {"budget": 2, "validation": 1, "held_out": 2}
    run = evopolicygym.run(f"{file}:Far-v0", "random", runs=tmp_path / "runs", **sizes)
    with pytest.raises(UnknownName, match="Did you mean 'Far-v0'"):
        evopolicygym.run(f"{file}:Farr-v0", "random", runs=tmp_path / "runs", **sizes)

    assert run.score is not None
    assert run.path.parent.name == "Far-v0"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ale.toml", "one that ships is called 'ale'"),
        ("two words.toml", "can't be called 'two words'"),
        ("absent.toml", "can't be read: No such file"),
    ],
)
def test_a_file_that_is_no_pack(name: str, why: str, tmp_path: Path) -> None:
    """A file of a shipped pack's name, of a name that no directory should have, or that is not there says so."""
    file = tmp_path / name
    if name != "absent.toml":
        file.write_text(own_pack.FILE)
    with pytest.raises(UsageError, match=why):
        pack_catalog.load(str(file))


def test_what_was_installed_from_a_file_is_removed(tmp_path: Path, shell: Shell) -> None:
    """A pack whose file is gone is removed by its name; one that isn't there is not."""
    directory = own_pack.lay_python().directory
    removed, again = shell("packs", "remove", own_pack.NAME), shell("packs", "remove", tmp_path / "walks.toml")

    assert (removed.code, directory.exists()) == (0, False)
    assert again.code == 2


def test_an_unknown_pack_is_refused_with_all() -> None:
    """The answer has the names of packs."""
    with pytest.raises(UnknownName, match="minigrid"):
        pack_catalog.load("nothing")
