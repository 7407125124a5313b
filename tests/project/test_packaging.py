"""What is installed: what the wheel and the source distribution hold, and what is said where an extra is missing."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from places import ROOT

PACKAGE = ROOT / "src" / "evopolicygym"
MOST_WHEEL, MOST_SOURCE = 2_100_000, 5_000_000
"""Bytes of what is uploaded."""
WITHOUT_HTTPX = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "httpx2":
            raise ModuleNotFoundError("No module named 'httpx2'", name="httpx2")

sys.meta_path.insert(0, Absent())
from evopolicygym.cli.main import main
main()
"""
"""The program, where httpx2 is not installed."""


def call(words: list[str], directory: Path, path: Path) -> "subprocess.CompletedProcess[str]":
    """Run Python outside of the checkout, with the package from one place."""
    environment = {**os.environ, "PYTHONPATH": str(path), "COLUMNS": "200"}
    line = [sys.executable, "-P", *words]
    return subprocess.run(line, cwd=directory, env=environment, capture_output=True, text=True, check=False)


def files_of_the_package() -> set[str]:
    """Return the path of every file that users need, from the folder above the package."""
    return {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def build(target: str, directory: Path) -> Path:
    """Build the wheel or the source distribution, without a network; return its path."""
    pytest.importorskip("hatchling", reason="hatchling isn't installed; `make .venv/.installed-dev` installs it")
    line = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(directory)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    (built,) = (path for path in directory.iterdir() if path.is_file())
    return built


def test_wheel(tmp_path: Path) -> None:
    """The wheel is small and holds the package alone, and from it the program lists what can be played."""
    wheel = build("wheel", tmp_path / "built")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        archive.extractall(tmp_path / "installed")  # noqa: S202 - a wheel, and our own
    place = call(["-c", "import evopolicygym; print(evopolicygym.__file__)"], tmp_path, tmp_path / "installed")
    listed = call(["-m", "evopolicygym", "environments"], tmp_path, tmp_path / "installed")

    assert files_of_the_package() == held
    assert wheel.stat().st_size < MOST_WHEEL
    assert {"agents/kit/prompt.txt", "agents/kit/neutral_harness/prompt.md", "runs/workspace_template/judge"} <= {
        name.removeprefix("evopolicygym/") for name in held
    }
    assert str(tmp_path) in place.stdout
    assert listed.returncode == 0, listed.stderr
    assert "acrobot" in listed.stdout


@pytest.mark.nightly
def test_source_distribution(tmp_path: Path) -> None:
    """The source distribution is small: it holds the package, its tests and what `make` reads, and no records."""
    source = build("sdist", tmp_path / "built")
    with tarfile.open(source) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}

    assert {f"src/{name}" for name in files_of_the_package()} <= held
    assert {"Makefile", "constraints.txt", "pyproject.toml", "CHANGELOG.md", "LICENSE", "tests/conftest.py"} <= held
    assert {name for name in held if name.startswith("results")} <= {"results", "results/README.md"}
    assert source.stat().st_size < MOST_SOURCE


@pytest.mark.nightly
def test_installed_wheel() -> None:
    """From the wheel alone, without extras, a new user lists, plays, verifies and reports."""
    line = [sys.executable, str(ROOT / "benchmarks" / "release.py"), "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failures"] == []


@pytest.mark.parametrize("agent", ["neutral", pytest.param("codex", marks=pytest.mark.nightly)])
def test_missing_extra(agent: str, tmp_path: Path) -> None:
    """Where httpx2 is not installed, an agent that asks a model says what installs it, and leaves no record."""
    (tmp_path / "codex").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "codex").chmod(0o755)
    asked = ["run", "cartpole", "--agent", agent, "--model", "m", "--model-url", "http://127.0.0.1:9/v1"]
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        done = call(["-c", WITHOUT_HTTPX, *asked, "--runs", str(tmp_path / "runs")], tmp_path, PACKAGE.parent)

    assert done.returncode == 2, done.stderr
    assert "evopolicygym[agents]" in done.stderr
    assert list(tmp_path.glob("runs/**/journal.jsonl")) == []
