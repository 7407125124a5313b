"""Plays a task of a pack from a new environment, and prints what was typed, what was asked, minutes and megabytes.

    python benchmarks/first_pack_run.py
    python benchmarks/first_pack_run.py --pack pusht --task gym_pusht/PushT-v0

The wheel of this tree is built, then installed as a user installs it, into a new virtual environment; homes, data and
runs are new too, and nothing is taken from a cache. A step that would ask something could not go on, as nobody answers.
Exit code 1 where a step fails.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
KEPT_VARIABLES = ("PATH", "LANG", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE", "SSL_CERT_FILE")
QUESTION = re.compile(r"\?\s*$|\[y/n\]|\(y/n\)|password", re.IGNORECASE)
LAST_LINES = 6


@dataclass(frozen=True, slots=True)
class Step:
    """One command, and what came of it."""

    typed: str
    code: int
    minutes: float
    megabytes: float
    """By which all that is installed or recorded grew."""
    asked: str
    """The questions in what it printed; nobody answered them."""
    said: str
    """The end of what it printed."""


def steps(place: Path, wheel: Path, pack: str, task: str) -> Iterator[Step]:
    """Yield each step as it ends; the last is the one that failed, or the run."""
    lines = [
        ("python3 -m venv .venv", f"{sys.executable} -m venv .venv"),
        ("pip install evopolicygym", f"pip install --no-cache-dir --disable-pip-version-check {wheel}"),
        (f"evopolicygym packs install {pack}",) * 2,
        (f"evopolicygym run {task} --agent random --budget 4",) * 2,
    ]
    for typed, line in lines:
        before, begun = _megabytes(place), time.monotonic()
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=place,
            env=_variables(place),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        minutes, printed = (time.monotonic() - begun) / 60, done.stdout.strip().splitlines()
        asked = "; ".join(line for line in printed if QUESTION.search(line)) or "nothing"
        said = "\n".join(printed[-LAST_LINES:])
        yield Step(typed, done.returncode, minutes, _megabytes(place) - before, asked, said)
        if done.returncode:
            return


def _variables(place: Path) -> Mapping[str, str]:
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    own = {"HOME": str(place / "home"), "PIP_NO_CACHE_DIR": "1", "UV_NO_CACHE": "1", "COLUMNS": "100"}
    return {**kept, **own, "PATH": f"{place / '.venv' / 'bin'}:{kept.get('PATH', os.defpath)}"}


def _megabytes(place: Path) -> float:
    return sum(path.lstat().st_size for path in place.rglob("*") if not path.is_dir()) / 1e6


def main() -> int:
    """Type all of it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", default="ale")
    parser.add_argument("--task", default="ALE/Tetris-v5")
    asked, console = parser.parse_args(), Console(width=120)
    table = Table("typed", "asked", "minutes", "MB", title="From a new environment")
    with TemporaryDirectory() as built, TemporaryDirectory() as place:
        words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", built, str(ROOT)]
        subprocess.run(words, check=True)
        (wheel,) = Path(built).glob("*.whl")
        Path(place, "home").mkdir()
        played = list(steps(Path(place), wheel, asked.pack, asked.task))
    for step in played:
        table.add_row(step.typed, step.asked, f"{step.minutes:.1f}", f"{step.megabytes:.0f}")
    console.print(table, played[-1].said)
    return played[-1].code


if __name__ == "__main__":
    sys.exit(main())
