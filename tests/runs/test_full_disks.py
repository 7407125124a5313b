"""A disk that is full, and a limit of files' sizes: the message is one line of the cause and of what to do."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from places import SUPPORT

FEW_KIB = 20
RUN = ("run", "cartpole", "--agent", "random", "--budget", "2", "--validation", "1", "--held-out", "1")
MOUNTED = 'mount -t tmpfs -o size=2m tmpfs "$0" && head -c 2090000 /dev/zero > "$0/fill"; exec "$@"'


def program(place: Path, *words: str, before: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    """Run the program on one core."""
    return subprocess.run(
        [*before, sys.executable, "-m", "evopolicygym", *words, "--split", "public", "--workers", "1"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
    )


def is_readable(done: "subprocess.CompletedProcess[str]", runs: Path) -> bool:
    """Return whether an error has no list, no traceback, no zeros, and names no run, which is not there."""
    there = list(runs.rglob("journal.jsonl"))
    wrong = ("[(", "Traceback", "Errno", "0.0 ", "workspace_template", *(() if there else ("logs/",)))
    return not [word for word in wrong if word in done.stderr]


def test_a_full_disk(tmp_path: Path) -> None:
    """A disk of 2 MB that is full is named with what is free on it."""
    if not shutil.which("unshare"):
        pytest.skip("there is no unshare to mount a small disk with")
    small = tmp_path / "small"
    small.mkdir()
    own = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNTED, str(small))
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    words = (*RUN, "--runs", str(small / "runs"), "--isolation", "process")
    done = program(tmp_path, *words, before=own)

    assert (done.returncode, is_readable(done, small)) == (1, True), done.stderr
    assert str(small) in done.stderr
    assert "--runs" in done.stderr


def test_a_limit_of_files(tmp_path: Path) -> None:
    """A limit of files' sizes is named as such, with its number and the command that lifts it."""
    limited = ("sh", "-c", f'ulimit -f {FEW_KIB * 2}; exec "$@"', "sh")
    done = program(tmp_path, *RUN, before=limited)

    assert (done.returncode, is_readable(done, tmp_path)) == (1, True), done.stderr
    assert "ulimit -f" in done.stderr
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != FEW_KIB << 10
