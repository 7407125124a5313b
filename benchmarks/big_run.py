"""Measures one run of more and more submissions, and episodes of more and more steps: time, memory, disk, slope.

    python benchmarks/big_run.py [--submissions 250 500 1000 2000] [--steps 12500 25000 50000 100000] [--plot DIR]

The first runs have five train episodes a submission and two validation cases a checkpoint, on a toy that plays in no
time: what is measured is the judge's own processor time, without waiting for the disk. Their parts: ``play``, the
submissions; ``finalize``, validation, selection and score; ``resume``, opening the finished record for writing;
``read``, reading its event log; ``show``, ``diagnose`` and ``page``, the program's verbs and the viewer's document of
the run, in processes of their own. The second are single episodes of a box of 8 numbers, with full feedback:
``write``, the files of an episode; ``hash``, its feedback's hash; ``read``, all its steps. The slope is the exponent by
which the seconds of the larger half of the sizes grow.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import numpy as np

from evopolicygym.core.rollout import Episode, EpisodeJob, Recording, Rollout
from evopolicygym.core.spaces import Box, Discrete
from evopolicygym.core.task import BudgetRule, PolicyContext
from evopolicygym.judge.request import SubmitRequest
from evopolicygym.judge.rollouts import finalize
from evopolicygym.records import atomic
from evopolicygym.records.feedback import feedback_sha256
from evopolicygym.records.reader import read_run
from evopolicygym.records.trajectories import EpisodeFiles, Trajectory, read_steps, write_episode
from evopolicygym.records.writer import RunWriter
from fakes import FakeExecutor, guard_beside, open_run

SUBMISSIONS, STEPS = (250, 500, 1000, 2000), (12_500, 25_000, 50_000, 100_000)
EPISODES, VALIDATION, HELD_OUT = 5, 2, 32
MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of its own below it
"""A file system in memory."""
PAGE = """
import sys
from pathlib import Path
from evopolicygym.viewer.documents.documents import Documents
from evopolicygym.viewer.documents.overview import RunIndex
index = RunIndex([Path(sys.argv[1])])
Documents(index).document(f"run/{next(iter(index.directories()))}")
"""
"""Makes the viewer's document of the run below a directory."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One part of the work on one size."""

    part: str
    size: int
    seconds: float
    """Processor time."""
    mb: float
    """Of memory at the part's end, or of disk where the part writes files."""


class InstantExecutor(FakeExecutor):
    """Plays at once and remembers nothing."""

    def load(self, checkpoint: Path, context: PolicyContext) -> None:
        """Every policy loads."""

    def play(
        self,
        rollouts: Sequence[Rollout],
        repeated: Callable[[Rollout, EpisodeJob, str], None],
    ) -> Iterator[tuple[Rollout, EpisodeJob, Episode]]:
        """Play as the fake does, and forget what was played."""
        for each in super().play(rollouts, repeated):
            self.played.clear()
            yield each


class UnflushedDisk(atomic.Disk):
    """Doesn't wait for the disk."""

    def flush(self, descriptor: int) -> None:
        """Leave it to the system."""


def run_figures(place: Path, submissions: int) -> list[Figure]:
    """Play a run of so many submissions, and return the figures of its parts."""
    root, figures = place / f"run-{submissions}", []

    def add(part: str, began: float, mb: float) -> None:
        figures.append(Figure(part, submissions, process_time() - began, mb))

    changes = {
        "budget": BudgetRule(submissions * EPISODES),
        "validation_cases": VALIDATION,
        "held_out_cases": HELD_OUT,
    }
    with open_run(root, changes, InstantExecutor()) as run:
        began = process_time()
        for index in range(submissions):
            run.write_policy(f"{index % 97}.{index}")
            run.session.accept(SubmitRequest("0-4"))
            run.session.published(index).result()
        add("play", began, resident_mb())
        run.session.close()
        began = process_time()
        finalize(run.rollouts)
        add("finalize", began, resident_mb())
    began = process_time()
    with RunWriter(root, guard=guard_beside(root)):
        pass
    add("resume", began, resident_mb())
    began = process_time()
    read_run(root)
    add("read", began, (root / "journal.jsonl").stat().st_size / 1e6)
    for part, command in {
        "show": ["-m", "evopolicygym", "show", str(root)],
        "diagnose": ["-m", "evopolicygym", "diagnose", str(root)],
        "verify": ["-m", "evopolicygym", "verify", str(root)],
        "page": ["-c", PAGE, str(root)],
    }.items():
        seconds, mb = started(command)
        figures.append(Figure(part, submissions, seconds, mb))
    return figures


def episode_figures(place: Path, steps: int) -> list[Figure]:
    """Write and read an episode of so many steps, and return the figures of its parts."""
    directory, random = place / f"episode-{steps}" / "episodes" / "0", np.random.default_rng(0)
    trajectory = Trajectory(
        observations=random.normal(size=(steps + 1, 8)).astype(np.float32),
        actions=random.integers(4, size=steps),
        rewards=random.normal(size=steps),
        infos=[{"gain": float(at), "cost": 0.0} for at in range(steps)],
        clipped=frozenset(),
        terminated=True,
        truncated=False,
    )
    figures, began = [], process_time()
    write_episode(directory, EpisodeFiles(trajectory, b"", b"", None, ("gain", "cost")), Recording.TRAJECTORY)
    disk_mb = sum(path.stat().st_size for path in directory.iterdir()) / 1e6
    figures.append(Figure("write an episode", steps, process_time() - began, disk_mb))
    began = process_time()
    feedback_sha256(directory.parent.parent)
    figures.append(Figure("hash an episode", steps, process_time() - began, resident_mb()))
    began = process_time()
    found = read_steps(directory, Box((8,), "float32", -np.inf, np.inf), Discrete(4))
    count = sum(1 for _ in found or ())
    if count != steps:
        sys.exit(f"{count} steps were read of {steps}")
    figures.append(Figure("read an episode", steps, process_time() - began, resident_mb()))
    return figures


def started(command: Sequence[str]) -> tuple[float, float]:
    """Return processor seconds and MB of a process of Python."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def resident_mb() -> float:
    """Return the memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


Curve = Sequence[tuple[int, float]]
"""Sizes in order, with seconds."""


def curves(figures: Sequence[Figure]) -> dict[str, Curve]:
    """Return the curve of each part."""
    parts = dict.fromkeys(figure.part for figure in figures)
    return {part: [(each.size, each.seconds) for each in figures if each.part == part] for part in parts}


def slope(curve: Curve) -> float:
    """Return the exponent by which seconds grow, by least squares over the larger half of the sizes, two at least."""
    larger = curve[min(len(curve) // 2, max(0, len(curve) - 2)) :]
    if len(larger) == 1:
        return math.nan
    return float(np.polyfit(np.log([size for size, _ in larger]), np.log([time_s for _, time_s in larger]), 1)[0])


def table(figures: Sequence[Figure]) -> str:
    """Return a row for each part and size."""
    lines = ["| part | size | processor, s | MB | slope |", "|---|---|---|---|---|"]
    for part, curve in curves(figures).items():
        own = [figure for figure in figures if figure.part == part]
        for figure in own:
            shown = f"{slope(curve):.2f}" if figure is own[-1] else ""
            lines.append(f"| {part} | {figure.size:,} | {figure.seconds:.2f} | {figure.mb:.1f} | {shown} |")
    return "\n".join(lines)


def draw(drawn: Mapping[str, Curve], file: Path) -> None:
    """Write an SVG of seconds against size, both on logarithmic scales: a line for each curve, with its slope."""
    width, height, left, right, top, below = 560, 320, 60, 190, 20, 40
    points = [point for curve in drawn.values() for point in curve]
    lows = [max(1e-3, min(values)) for values in zip(*points, strict=True)]
    highs = [max(values) for values in zip(*points, strict=True)]

    def place(point: tuple[int, float]) -> str:
        across, up = (
            math.log(max(value, low) / low) / (math.log(high / low) or 1)
            for value, low, high in zip(point, lows, highs, strict=True)
        )
        return f"{left + across * (width - left - right):.1f},{height - below - up * (height - below - top):.1f}"

    def text(x: int, y: int, words: str, colour: str = "black") -> str:
        return f'<text x="{x}" y="{y}" font-size="12" fill="{colour}">{words}</text>'

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">']
    parts.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for at, (name, curve) in enumerate(drawn.items()):
        colour = f"hsl({at * 137 % 360},65%,40%)"
        line = " ".join(map(place, curve))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(text(width - right + 12, 30 + 18 * at, f"{name}: slope {slope(curve):.2f}", colour))
    parts += [text(left, height - 22, f"{lows[0]:,.0f}"), text(width - right - 30, height - 22, f"{highs[0]:,.0f}")]
    parts += [text(4, height - below, f"{lows[1]:.3g} s"), text(4, top, f"{highs[1]:.3g} s")]
    parts.append(text(left + 60, height - 6, "processor time against size, logarithmic"))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def main() -> None:
    """Measure the sizes, print the table, draw the plots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--submissions", type=int, nargs="*", default=SUBMISSIONS)
    parser.add_argument("--steps", type=int, nargs="*", default=STEPS)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write an SVG of seconds against size")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    atomic.disk = UnflushedDisk()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
        for submissions in asked.submissions:
            figures += run_figures(Path(place), submissions)
            print(f"{submissions} submissions measured", file=sys.stderr)
        for steps in asked.steps:
            figures += episode_figures(Path(place), steps)
    if asked.plot:
        draw(curves(figures), asked.plot)
    print(json.dumps([asdict(figure) for figure in figures], indent=2) if asked.json else table(figures))


if __name__ == "__main__":
    main()
