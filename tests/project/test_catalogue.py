"""The catalogue has a page for each family, and is what its script writes; its pictures are small."""

import runpy
import sys

import pytest

from evopolicygym.specs import pack_catalog
from places import ROOT

PICTURE, ALL_PICTURES = 15_000, 3_000_000
"""Bytes that a picture, and all of them, may take."""


@pytest.fixture(scope="module")
def catalogue() -> dict[str, object]:
    return runpy.run_path(str(ROOT / "docs" / "catalogue.py"))


def test_pages_are_as_they_are_written(catalogue: dict[str, object]) -> None:
    """Each page is what `python docs/catalogue.py` writes now, and there is no other."""
    pages = catalogue["pages"]()  # type: ignore[operator]
    folder = ROOT / "docs" / "reference" / "environments"

    assert {page.name for page in pages} == {page.name for page in folder.glob("*.md")}
    assert [page.name for page, text in pages.items() if page.read_text(encoding="utf-8") != text] == []


def test_pictures_are_small_and_shown(catalogue: dict[str, object]) -> None:
    """No picture is larger than it need be, and each stands on the page of its family."""
    files = sorted((ROOT / "docs" / "reference" / "environments" / "pictures").rglob("*.*"))
    sizes = {file.name: file.stat().st_size for file in files}
    texts = "".join(catalogue["pages"]().values())  # type: ignore[operator]

    assert sizes
    assert [name for name, size in sizes.items() if size > PICTURE] == []
    assert sum(sizes.values()) < ALL_PICTURES
    assert [file.name for file in files if f"pictures/{file.parent.name}/{file.name}" not in texts] == []


def test_families_on_our_python_have_pictures(catalogue: dict[str, object]) -> None:
    """Whoever has Core16's packages can draw them, so no such family's page lacks a picture."""
    packs = [pack for pack in map(pack_catalog.load, pack_catalog.names()) if pack.tasks and pack.is_beside_us]

    assert packs
    assert [pack.name for pack in packs if not list(catalogue["pictures"](pack))] == []  # type: ignore[operator]


def test_the_script_needs_no_simulator() -> None:
    """Writing the pages makes no environment and draws nothing."""
    before = set(sys.modules)
    runpy.run_path(str(ROOT / "docs" / "catalogue.py"))

    assert {"minigrid", "mujoco", "PIL"} & (set(sys.modules) - before) == set()
