"""``python -m evopolicygym`` imports nothing of the directory that it is started in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLANTED = "raise SystemExit('a module of the present directory was imported')\n"
ALREADY = "import runpy, sys; print(*sys.modules)"
"""Prints what Python imports before any program of its starts, ``-m`` included."""


def _plant(place: Path) -> None:
    """Write a module of every name of the standard library, and of some that the program needs, into a directory."""
    shown = subprocess.run([sys.executable, "-P", "-c", ALREADY], capture_output=True, text=True, check=True).stdout
    names = {*sys.stdlib_module_names, "numpy", "typer", "rich", "pydantic", "gymnasium"} - {*shown.split(), "pkgutil"}
    for name in names:
        (place / f"{name}.py").write_text(PLANTED)


@pytest.mark.parametrize("words", [["--version"], ["environments"]])
def test_no_module_of_the_present_directory_is_imported(tmp_path: Path, words: list[str]) -> None:
    """A planted module is neither imported by the program itself nor by the processes that it starts."""
    _plant(tmp_path)
    line = [sys.executable, "-m", "evopolicygym", *words]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_directory_that_is_named_stays_on_the_path(tmp_path: Path) -> None:
    """``PYTHONPATH=.`` puts the present directory on the path, as users of modules of their own have it."""
    (tmp_path / "mine.py").write_text("raise SystemExit(77)\n")
    line = [sys.executable, "-m", "evopolicygym", "run", "cartpole", "--agent", "mine:Agent", "--runs", "runs"]
    codes = [
        subprocess.run(
            line, cwd=tmp_path, capture_output=True, timeout=60, check=False, env={**os.environ, **more}
        ).returncode
        for more in ({}, {"PYTHONPATH": "."})
    ]

    assert codes == [2, 77]
