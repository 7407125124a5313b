"""What is installed: the wheel holds every file of the package and runs by itself; what an extra lacks is told."""

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from places import ROOT

PACKAGE = ROOT / "src" / "evopolicygym"
WITHOUT_HTTPX = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "httpx":
            raise ModuleNotFoundError("No module named 'httpx'", name="httpx")

sys.meta_path.insert(0, Absent())
from evopolicygym.cli.main import main
main()
"""
"""The program, where httpx is not installed."""


def call(words: list[str], directory: Path, path: Path) -> "subprocess.CompletedProcess[str]":
    """Run Python outside of the checkout, with the package from one place."""
    environment = {**os.environ, "PYTHONPATH": str(path), "COLUMNS": "200"}
    line = [sys.executable, "-P", *words]
    return subprocess.run(
        line, cwd=directory, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Return the wheel, built without a network."""
    own = importlib.util.find_spec("hatchling") is not None
    words = ["-m", "pip", "wheel", "--quiet", "--no-deps", *(["--no-build-isolation"] * own), "-w", str(tmp_path)]
    done = subprocess.run([sys.executable, *words, str(ROOT)], capture_output=True, text=True, timeout=240, check=False)
    built = list(tmp_path.glob("*.whl"))
    if not built and not own:
        pytest.skip(f"hatchling is neither installed nor to be had: {done.stderr.strip()[-200:]}")

    assert done.returncode == 0, done.stderr
    return built[0]


def test_wheel(wheel: Path, tmp_path: Path) -> None:
    """Every file of the package is in the wheel, and from it alone the program lists what can be played."""
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        archive.extractall(tmp_path / "installed")
    wanted = {
        str(path.relative_to(PACKAGE.parent))
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    place = call(["-c", "import evopolicygym; print(evopolicygym.__file__)"], tmp_path, tmp_path / "installed")
    helped = call(["-m", "evopolicygym", "--help"], tmp_path, tmp_path / "installed")
    listed = call(["-m", "evopolicygym", "environments"], tmp_path, tmp_path / "installed")

    assert wanted - held == set()
    assert {"agents/kit/prompt.txt", "agents/kit/neutral_harness/prompt.md", "runs/workspace_template/judge"} <= {
        name.removeprefix("evopolicygym/") for name in held
    }
    assert str(tmp_path) in place.stdout
    assert (helped.returncode, listed.returncode) == (0, 0), helped.stderr + listed.stderr
    assert "acrobot" in listed.stdout


@pytest.mark.parametrize("agent", ["neutral", "codex"])
def test_missing_extra(agent: str, tmp_path: Path) -> None:
    """Where httpx is not installed, an agent that asks a model says what installs it, and leaves no record."""
    (tmp_path / "codex").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "codex").chmod(0o755)
    asked = ["run", "cartpole", "--agent", agent, "--model", "m", "--model-url", "http://127.0.0.1:9/v1"]
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        done = call(["-c", WITHOUT_HTTPX, *asked, "--runs", str(tmp_path / "runs")], tmp_path, PACKAGE.parent)

    assert done.returncode == 2, done.stderr
    assert "pip install 'evopolicygym[agents]'" in done.stderr
    assert list(tmp_path.glob("runs/**/journal.jsonl")) == []
