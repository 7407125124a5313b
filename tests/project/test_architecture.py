"""The page on architecture names what there is."""

import re

import pytest
from test_floors import ROOMS

from places import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "evopolicygym"
TOP = ("src/", "tests/", "docs/", "benchmarks/", "examples/")
OF_RUNS = {"run.json", "system/"}
"""What lies in a run."""
ROW = re.compile(r"^\| \d+ \| `(\w+/)` \|.*", re.MULTILINE)
"""A package's, in which paths are relative to the package."""


def named() -> set[tuple[str, str]]:
    """Return every path and file that the page names, each with the package that it is relative to."""
    rows = {(row[1], path) for row in ROW.finditer(PAGE) for path in _paths(row[0].replace(f"`{row[1]}`", "", 1))}
    return rows | {("", path) for path in _paths(ROW.sub("", PAGE))}


def _paths(text: str) -> set[str]:
    words = re.findall(r"`([\w./<>-]+)`", text)
    return {word for word in words if "/" in word or word.endswith((".py", ".toml", ".json"))} - OF_RUNS


@pytest.mark.parametrize(("package", "path"), sorted(named()))
def test_every_path_that_the_page_names_is_there(package: str, path: str) -> None:
    """Each path leads to a file or a folder; where a part of its name is left open, its folder is there."""
    place = ROOT / path if path.startswith(TOP) else SOURCE / package / path
    found = place.parent if "<" in path else place

    assert found.exists() or ("/" not in path and list(SOURCE.rglob(path)))


def test_every_package_has_a_row_in_its_layer() -> None:
    """The table has each package in the layer that the imports are held to, and no other."""
    rows = re.findall(r"^\| (\d+) \| `(\w+)/` \|", PAGE, re.MULTILINE)

    assert {name: int(layer) for layer, name in rows} == ROOMS
