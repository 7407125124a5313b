"""Plays two packs that exclude one another in one suite, and Core16's recorded trajectories before and after.

    python benchmarks/packs_side_by_side.py --data DIRECTORY            installs the packs there where they aren't
    python benchmarks/packs_side_by_side.py --data DIRECTORY --environment reacher

Meta-World is pinned to MuJoCo 3.3.0, dm_control to 3.10.0, and Core16 has another one. The suite has a task of each,
and every run of it is played again. The first held-out case of the shipped record of each reference, one for every
environment of Core16, is played before the packs are installed and after the suite: its trajectory must be the recorded
one, bit for bit. Exit code 1 where anything differs.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from evopolicygym.core.check_result import ReplayVerdict
from evopolicygym.packs.installer import install
from evopolicygym.runs.replay import ReplayedCase, ReplayOptions, replay
from evopolicygym.specs import pack_catalog

PACKS = ("metaworld", "dm_control")
TASKS = ("reacher", "Meta-World/reach-v3", "dm_control/reacher-easy-v0")
SUITE = f"""\
description = "Two packs that exclude one another, beside Core16"
environments = {json.dumps(TASKS)}
budget = 2
validation = 1
held_out = 2

[[agents]]
name = "random"
"""
RECORDS = Path(__file__).resolve().parent.parent / "results" / "references" / "reference"
SIMULATOR = "mujoco"
SHOWN = 12
"""Characters of a digest that are shown."""


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A run of the suite."""

    task: str
    pack: str
    """Empty where it was played on our own Python."""
    simulator: str
    """The version of MuJoCo that it recorded."""
    score: float
    repeats: bool
    """Whether its held-out cases played again the same, bit for bit."""


def recorded() -> tuple[str, ...]:
    """Return the environments of Core16 that have a shipped record."""
    return tuple(sorted(one.name for one in RECORDS.iterdir()))


def played_again(names: Iterable[str]) -> dict[str, ReplayedCase]:
    """Play the first held-out case of each environment's shipped record."""
    found = {}
    for name in names:
        again = replay(min((RECORDS / name).iterdir()), ReplayOptions(1))
        found[name] = next(again)
        again.close()  # type: ignore[attr-defined] # it is a generator, whose executor is closed with it
    return found


def suite_played(place: Path) -> list[SuiteRun]:
    """Play the suite below a directory, from the command line, and every run of it again."""
    file = place / "side_by_side.toml"
    file.write_text(SUITE, encoding="utf-8")
    _typed("suite", str(file), "--runs", str(place / "runs"))
    runs = sorted((place / "runs").rglob("run.json"), key=lambda path: path.parent.name)
    return [_suite_run(run) for run in runs]


def _suite_run(document: Path) -> SuiteRun:
    found: dict[str, Any] = json.loads(document.read_text(encoding="utf-8"))
    environment = found["task"]["environment"]
    again = _typed("verify", "--replay", str(document.parent), "--json")
    replayed = next(one for one in json.loads(again)["findings"] if one["what"] == "replay")
    return SuiteRun(
        environment["name"],
        environment.get("pack", ""),
        found["fingerprint"]["versions"][SIMULATOR],
        found["outcome"]["score"],
        replayed["verdict"] == ReplayVerdict.SAME,
    )


def _typed(*words: str) -> str:
    """Run our program and return what it printed; what goes wrong in it ends this one."""
    line = [sys.executable, "-m", "evopolicygym", *words]
    return subprocess.run(line, stdout=subprocess.PIPE, check=True, text=True).stdout


def _installed(tell: Callable[[str], None]) -> None:
    for name in PACKS:
        begun = time.monotonic()
        found = install(pack_catalog.load(name), lambda what, name=name: tell(f"{name}: {what}"))  # type: ignore[misc]
        tell(f"{name}: {found.size_mb} MB, {SIMULATOR} {found.versions[SIMULATOR]}, {time.monotonic() - begun:.0f} s")


def main() -> int:
    """Play all of it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the data directory that the packs are installed in")
    parser.add_argument("--environment", action="append", choices=recorded(), help="of Core16; all where none is named")
    asked = parser.parse_args()
    names, console = tuple(asked.environment or recorded()), Console(width=120)
    os.environ["XDG_DATA_HOME"] = str(asked.data.resolve())
    with TemporaryDirectory() as place:
        os.environ["XDG_STATE_HOME"] = f"{place}/state"
        before = played_again(names)
        _installed(console.print)
        runs = suite_played(Path(place))
        after = played_again(names)
    console.print(_of_suite(runs), _of_core16(before, after))
    same = all(one.same for one in (*before.values(), *after.values()))
    return int(not (same and all(run.repeats for run in runs) and len({run.simulator for run in runs}) == len(TASKS)))


def _of_suite(runs: Iterable[SuiteRun]) -> Table:
    table = Table("task", "pack", SIMULATOR, "held-out mean", "played again", title="One suite")
    for run in runs:
        again = "the same, bit for bit" if run.repeats else "DIFFERENT"
        table.add_row(run.task, run.pack or "core16", run.simulator, f"{run.score:.2f}", again)
    return table


def _of_core16(before: Mapping[str, ReplayedCase], after: Mapping[str, ReplayedCase]) -> Table:
    table = Table("environment", "steps", "recorded", "before", "after", title="Core16: SHA-256 of a trajectory")
    for name, first in before.items():
        digests = [one.trajectory_sha256[:SHOWN] for one in (first.recorded, first.again, after[name].again)]
        table.add_row(name, str(first.again.length), *digests)
    return table


if __name__ == "__main__":
    sys.exit(main())
