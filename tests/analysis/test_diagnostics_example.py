"""The example of docs/measure/diagnostics.md: its numbers are those that its commands print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evopolicygym.rollout.arithmetic import variables
from places import ROOT

PAGE = (ROOT / "docs" / "measure" / "diagnostics.md").read_text(encoding="utf-8")
EXAMPLE = PAGE.partition("## An example")[2].partition("## ")[0]


def printed(*words: object) -> str:
    """Return what the program printed, its lines joined: how wide a terminal is doesn't matter.

    The tuner's own arithmetic is pinned too, so that the page's numbers are those of every processor.
    """
    line = [sys.executable, "-m", "evopolicygym", *map(str, words)]
    done = subprocess.run(line, env={**os.environ, **variables()}, capture_output=True, text=True, check=True)
    return " ".join(done.stdout.split())


@pytest.mark.nightly
def test_the_examples_numbers_are_what_is_printed(tmp_path: Path) -> None:
    """Both runs of the page are played, and diagnosed as the page says."""
    play, diagnose, many = (one.split() for one in re.findall(r"(?:^|`)evopolicygym ([^`\n]+)", EXAMPLE, re.MULTILINE))
    for seed in (0, 1):
        printed(*play, "--runs", tmp_path / "runs", "--seed", seed)
    (first,) = (file.parent for file in (tmp_path / "runs").rglob("run.json") if '"seed": 0' in file.read_text())
    block = EXAMPLE.partition("```text\n")[2].partition("```")[0]
    table = "\n".join(line for line in EXAMPLE.splitlines() if line.startswith("|"))

    assert printed(*(first if word == "RUN" else word for word in diagnose)) == " ".join(block.split())
    assert printed(*(tmp_path / "runs" if word == "runs" else word for word in many)).endswith(" ".join(table.split()))
