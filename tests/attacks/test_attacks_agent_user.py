"""What holds an agent when the judge is an ordinary user: started by root as nobody, where that works."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import evopolicygym
from enclosed import needs_bubblewrap
from players import GOOD

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "sh", "-c", 'exec "$@"', "sh")
PATHS = f"{Path(evopolicygym.__file__).parents[1]}:{sysconfig.get_path('purelib')}"
PYTHONS = (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}")
"""This one may lie in root's home."""


@cache
def usable_python() -> str:
    """Return a Python in which nobody can import this project; empty where there is none."""
    words = ("-P", "-c", "import evopolicygym.runs.run, gymnasium")
    for python in PYTHONS:
        command = [*AS_NOBODY, python, *words]
        if not subprocess.run(command, cwd="/", env={"PYTHONPATH": PATHS}, capture_output=True, check=False).returncode:
            return python
    return ""


def why_not() -> str:
    """Return why nothing can be started as an ordinary user here; empty where it can."""
    if os.geteuid():
        return "only root can become another user; every other test runs as an ordinary user already"
    if shutil.which("setpriv") is None:
        return "setpriv is not installed"
    return "" if usable_python() else f"nobody can't import this project in any of {', '.join(PYTHONS)}"


pytestmark = [needs_bubblewrap, pytest.mark.skipif(bool(why_not()), reason=why_not()), pytest.mark.needs_root]

AGENT = """
import json, os, pathlib, subprocess, sys
pathlib.Path("system/policy.py").write_text(sys.argv[1])
subprocess.run(["./judge", "submit", "0-1"], check=True)
writable = [os.path.join(at, name) for at, _, names in os.walk("/proc/sys") for name in names
            if os.access(os.path.join(at, name), os.W_OK)]
print(json.dumps({"writable": writable, "planted": os.access("feedback", os.W_OK)}))
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a directory that belongs to nobody and that nobody can reach: the tests' own is root's."""
    directory = Path(tempfile.mkdtemp(prefix="evopolicygym-user-"))
    os.chown(directory, NOBODY, NOBODY)
    yield directory
    shutil.rmtree(directory)


def played(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Play a short run as an ordinary user."""
    small = ["--budget", "4", "--validation", "1", "--held-out", "1", "--workers", "1", "--json"]
    return subprocess.run(
        [*AS_NOBODY, usable_python(), "-P", "-m", "evopolicygym", "run", "cartpole", *small, *words],
        cwd=home,
        env={"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_whole_run_as_an_ordinary_user(home: Path) -> None:
    """A run that an ordinary user starts is held in as root's is, and the kernel counts its processes besides."""
    done = played(home, "--", "python3", "-c", AGENT, GOOD)

    assert done.returncode == 0, done.stderr
    run = next(home.glob("runs/*/*/*/*/run.json"))
    document = json.loads(run.read_text(encoding="utf-8"))
    assert (document["outcome"]["status"], document["isolation"]["level"]) == ("scored", "bubblewrap")
    assert document["isolation"]["agent"]["privileges"] == "no capabilities, no new privileges"
    assert "RLIMIT_NPROC" in document["isolation"]["agent"]["processes"]
    told = (run.parent / "logs" / "agent.log").read_text(encoding="utf-8").splitlines()
    assert json.loads(told[-1]) == {"writable": [], "planted": False}


SHARES = """
import mmap, os, time
kept = [mmap.mmap(-1, 150 << 20), os.memfd_create("kept")]
kept[0].write(bytes(150 << 20))
os.write(kept[1], bytes(150 << 20))
time.sleep(60)
"""


@pytest.mark.parametrize("level", ["bubblewrap", "process"])
def test_shared_memory_as_an_ordinary_user(level: str, home: Path) -> None:
    """What an agent's processes share, mapped and not, counts where an ordinary user can make no control group, too."""
    played(home, "--isolation", level, "--option", "memory_mb=250", "--", "python3", "-c", SHARES)
    journal = next(home.glob("runs/*/*/*/*/journal.jsonl")).read_text(encoding="utf-8")

    assert "at most 250 MiB may be used" in journal
