"""Plays every task of a suite on one worker and on two, and prints whether they agree, seconds and memory an episode.

    python benchmarks/suite_tasks.py frontier16
    python benchmarks/suite_tasks.py frontier16 --environment Humanoid-v5
    python benchmarks/suite_tasks.py frontier16 --from-nothing      also installs its packs into a new directory

A checkpoint that acts at random plays the same held-out cases of the public split three times: two of them on one
worker, then all on one and all on two. Every trajectory must be the same, bit for bit. Processor seconds of an episode
are the difference between the first two, so that starting counts for nothing. Each task plays in a process of its own,
whose largest child is the memory. A task whose pack is not installed is left out, and said. Exit code 1 where a
trajectory differs or a task fails.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from evopolicygym.core.cases import Split
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.pack import Pack
from evopolicygym.core.rollout import Episode
from evopolicygym.core.task import EnvironmentSpec, TaskText
from evopolicygym.packs.installer import install
from evopolicygym.runs.anchors import AnchorPlayer, starter_policy
from evopolicygym.runs.environment import resolve_environment
from evopolicygym.runs.suites.suite import load_suite
from evopolicygym.specs import pack_catalog

FEW, ALL = 2, 6
"""Cases of the first pass, and of the others."""
TRAIN, CANDIDATES, VALIDATION, HELD_OUT = 128, 16, 16, 32
"""Episodes of a whole run: a budget, sixteen checkpoints on sixteen cases, and the cases of the score."""
RUN_EPISODES = TRAIN + CANDIDATES * VALIDATION + HELD_OUT
CORES = 2


@dataclass(frozen=True, slots=True)
class PlayedTask:
    """What playing a task took."""

    name: str
    repeats: bool
    """Whether a second process played the same trajectories."""
    same_on_two: bool
    """Whether two workers did."""
    steps: float
    """Of an episode, on average."""
    max_steps: int
    seconds: float
    """Processor time of an episode."""
    megabytes: int

    def minutes(self, *, whole_length: bool = False) -> float:
        """Return the minutes of a whole run on two cores, with episodes as played or all as long as they can be."""
        factor = self.max_steps / self.steps if whole_length else 1.0
        return RUN_EPISODES * self.seconds * factor / CORES / 60


@dataclass(frozen=True, slots=True)
class PackInstallation:
    """What installing a pack took."""

    name: str
    seconds: float
    downloaded_mb: float
    size_mb: int


def play(name: str) -> PlayedTask:
    """Play a task in this process, which must not have played another."""
    spec = resolve_environment(name, TaskText.TERSE)[0]
    few, short = _episodes(spec, 1, FEW)
    alone, long = _episodes(spec, 1, ALL)
    beside, _ = _episodes(spec, CORES, ALL)
    hashes = [[episode.trajectory_sha256 for episode in episodes] for episodes in (few, alone, beside)]
    return PlayedTask(
        name,
        hashes[0] == hashes[1][:FEW],
        hashes[1] == hashes[2],
        sum(episode.length for episode in alone) / ALL,
        spec.max_steps,
        max(0.0, long - short) / (ALL - FEW),
        resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1000,
    )


def _episodes(spec: EnvironmentSpec, workers: int, cases: int) -> tuple[Sequence[Episode], float]:
    """Return episodes of random play, and the processor seconds of all processes that played them."""
    before = _processor_seconds()
    with AnchorPlayer(spec, workers) as player:
        played = player.play(starter_policy(), Split.HELD_OUT, cases, lambda _: None)
    return played.episodes, _processor_seconds() - before


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def install_all(packs: Sequence[Pack], place: Path) -> Iterator[PackInstallation]:
    """Install packs below a directory that is new, without a cache; yield each as it ends."""
    os.environ.update(XDG_DATA_HOME=str(place / "data"), PIP_CACHE_DIR=str(place / "pip"))
    os.environ["UV_CACHE_DIR"] = str(place / "uv")
    for pack in packs:
        before, begun = _megabytes(place / "pip", place / "uv"), time.monotonic()
        found = install(pack, lambda _: None)
        grown = _megabytes(place / "pip", place / "uv") - before
        yield PackInstallation(pack.name, time.monotonic() - begun, grown, found.size_mb)


def _megabytes(*places: Path) -> float:
    files = (path for place in places for path in place.rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files) / 1e6


def packs_of(environments: Sequence[str]) -> dict[str, Pack]:
    """Return the packs with a Python of their own that tasks need, by name."""
    found = (pack_catalog.find(name) for name in environments)
    return {pack.name: pack for pack, _ in filter(None, found) if not pack.is_beside_us}


def played_apart(name: str) -> PlayedTask | str:
    """Return what a task came to in a process of its own, or why it could not be played."""
    line = [sys.executable, __file__, "--task", name]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no reason was printed"])[-1]
    return PlayedTask(**json.loads(done.stdout.splitlines()[-1]))


def tasks_table(found: Mapping[str, PlayedTask | str]) -> Table:
    """Return the table of what was played."""
    headings = ("task", "again", "two workers", "steps", "seconds", "MB", "minutes of a run", "at whole length")
    table = Table(*headings, title=f"{ALL} episodes of random play; a run is {RUN_EPISODES} episodes on {CORES} cores")
    for name, task in found.items():
        if isinstance(task, str):
            table.add_row(name, task)
            continue
        agree = ("same" if task.repeats else "DIFFERENT", "same" if task.same_on_two else "DIFFERENT")
        times = (f"{task.seconds:.2f}", str(task.megabytes), f"{task.minutes():.1f}")
        table.add_row(name, *agree, f"{task.steps:.0f}", *times, f"{task.minutes(whole_length=True):.1f}")
    return table


def installations_table(found: Sequence[PackInstallation]) -> Table:
    """Return the table of what was installed, with the sums."""
    table = Table("pack", "seconds", "MB downloaded", "MB on disk", title="Packs from nothing")
    for pack in found:
        table.add_row(pack.name, f"{pack.seconds:.0f}", f"{pack.downloaded_mb:.0f}", str(pack.size_mb))
    sums = (sum(getattr(pack, name) for pack in found) for name in ("seconds", "downloaded_mb", "size_mb"))
    table.add_row("all", *(f"{value:.0f}" for value in sums))
    return table


def main() -> int:
    """Play a suite's tasks; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="?", default="frontier16")
    parser.add_argument("--environment", action="append", help="play only this task; may be given several times")
    parser.add_argument("--from-nothing", action="store_true", help="install the suite's packs into a new directory")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    asked, console = parser.parse_args(), Console(width=130)
    if asked.task:
        sys.stdout.write(json.dumps(asdict(play(asked.task))) + "\n")
        return 0
    environments = tuple(asked.environment or load_suite(asked.suite, {}).environments)
    with TemporaryDirectory() as place:
        if asked.from_nothing:
            console.print(installations_table(list(install_all(list(packs_of(environments).values()), Path(place)))))
        found: dict[str, PlayedTask | str] = {}
        for name in environments:
            found[name] = played_apart(name)
            console.print(f"{name}: {found[name]}", style="dim")
        console.print(tasks_table(found))
    return int(not all(isinstance(task, PlayedTask) and task.repeats and task.same_on_two for task in found.values()))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except EvoPolicyGymError as error:
        sys.exit(str(error))
