"""What the program prints where the terminal's encoding lacks a character: something else, and never a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evopolicygym.cli.start import MARKS, print_in_any_encoding
from places import SUPPORT

ASCII = {"PYTHONIOENCODING": "ascii"}
POSIX = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
LABEL = "naïve → Ω"
RUN = ("run", "cartpole", "--agent", "random", "--budget", "2", "--validation", "1", "--held-out", "2")


def program(place: Path, variables: dict[str, str], *words: str) -> "subprocess.CompletedProcess[bytes]":
    """Run the program in an encoding."""
    return subprocess.run(
        [sys.executable, "-m", "evopolicygym", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path]), **variables},
        capture_output=True,
        check=False,
        cwd=place,
    )


@pytest.mark.parametrize("variables", [ASCII, pytest.param(POSIX, marks=pytest.mark.nightly)])
def test_a_run_is_printed_in_any_encoding(tmp_path: Path, variables: dict[str, str]) -> None:
    """A run that was played has its exit code and its result in a terminal of ASCII, and so have help and JSON."""
    done = program(tmp_path, variables, *RUN, "--label", LABEL, "--split", "public", "--workers", "1")
    shown = program(tmp_path, variables, "show", "latest", "--json")
    described = program(tmp_path, variables, "run", "--help")

    assert (done.returncode, shown.returncode, described.returncode) == (0, 0, 0), done.stderr
    assert MARKS["±"].encode() in done.stdout
    assert [text.isascii() for text in (done.stdout, done.stderr, shown.stdout, described.stdout)] == [True] * 4
    assert json.loads(shown.stdout)["agent"]["label"] == LABEL


def test_no_character_is_lost() -> None:
    """The program's own marks have words of ASCII, and every other character an escape."""
    print_in_any_encoding()

    assert "1 ± 2 …".encode("ascii", "in other words") == b"1 +- 2 ..."
    assert "Ω\N{GRINNING FACE}".encode("ascii", "in other words") == rb"\u03a9\U0001f600"
