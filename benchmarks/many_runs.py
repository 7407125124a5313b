"""Measures the verbs that read results over more and more runs: processor seconds, peak memory, and the slope.

    python benchmarks/many_runs.py [--runs 600 1200 2400 4800 9600] [--verbs compare diagnose …] [--json]

The runs: a whole run's journal, document and checkpoints of 16 submissions, with the specs of four tasks, as many
agents with five repeats on each task as make the number asked for. Every verb starts afresh; ``cold`` is the first
start over runs that were just written, with an empty cache, ``warm`` the next; the table has processor time, ``--json``
the time until the end too. Of ``view`` it is the server's first list of runs and its leaderboard. Runs that ``--keep``
kept are not cold.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import log2
from pathlib import Path
from time import perf_counter
from urllib.request import HTTPCookieProcessor, Request, build_opener

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import numpy as np

from big_run import draw
from bundles import lay_out
from diagnosed import closing, submitted
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.task import BudgetRule, Task
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.writer import RunWriter
from evopolicygym.specs import catalog
from fakes import opening

SIZES = (600, 1200, 2400, 4800, 9600)
TASKS = ("acrobot", "half_cheetah", "parking", "door_key")
REPEATS, SUBMISSIONS, VALIDATION, HELD_OUT = 5, 16, 4, 32
VERBS: dict[str, Sequence[str]] = {
    "leaderboard": ("leaderboard", "RUNS"),
    "compare": ("compare", "agent-000", "agent-001", "RUNS"),
    "diagnose": ("diagnose", "RUNS"),
    "report": ("report", "RUNS", "-o", "OUT/report"),
    "export": ("export", "parquet", "RUNS", "--no-steps", "-o", "OUT/data"),
    "view": (),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One start of the program."""

    verb: str
    runs: int
    cold_s: float
    warm_s: float
    cold_processor_s: float
    warm_processor_s: float
    peak_mb: float


def write_runs(below: Path, first: int, last: int) -> None:
    """Write the runs of these numbers."""
    for number in range(first, last):
        agent, rest = divmod(number, len(TASKS) * REPEATS)
        place, seed = divmod(rest, REPEATS)
        random = np.random.default_rng(number)
        level = 1 - 0.05 * (agent % 16)
        spec = catalog.load(TASKS[place])
        task = Task(spec, BudgetRule(SUBMISSIONS), validation_cases=VALIDATION, held_out_cases=HELD_OUT)
        identity, config = (
            f"20260101-{number // 3600:02d}{number % 3600:04d}-{number % 65536:04x}",
            AgentConfig(f"agent-{agent:03d}"),
        )
        names = [f"c{at:02d}" for at in range(SUBMISSIONS)]
        events = [
            replace(opening(task=task, run_id=identity, agent=config, seed=seed), commitment=f"of {TASKS[place]}"),
            *(
                event
                for at, name in enumerate(names)
                for event in submitted(at, [at], [float(random.normal(level))], name)
            ),
        ]
        validation = {name: list(random.normal(level + 0.02 * at, size=VALIDATION)) for at, name in enumerate(names)}
        root = below / config.name / TASKS[place] / identity
        events = closing(events, validation, list(random.normal(level, size=HELD_OUT)))
        with RunWriter(root, events[0]) as writer:
            for event in events[1:]:
                writer.record(event, flush=False)
            writer.write_document()
        for at, name in enumerate(names):
            policy = f"GAIN = {at + number % 7}\n\n\ndef act(observation):\n    return GAIN * observation[0]\n"
            lay_out(RunPaths(root).checkpoint(name), {"policy.py": policy})


def started(command: Sequence[str]) -> tuple[float, float, float]:
    """Return seconds, processor seconds and MB of one start of the program."""
    began = perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "evopolicygym", *command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command[0]} failed")
    return perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def viewed(runs: Path) -> tuple[float, float, float]:
    """Return the same of ``view``, from its start until the list of runs and the leaderboard were served."""
    began = perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "evopolicygym", "view", str(runs), "--no-open"], stdout=subprocess.PIPE, text=True
    )
    line = process.stdout.readline() if process.stdout else ""
    entrance = line.split(" at ")[1].split(" ")[0]
    browser = build_opener(HTTPCookieProcessor())
    base = entrance.split("?")[0].rstrip("/")
    for address in (entrance, f"{base}/data/runs.json", f"{base}/data/suite.json"):
        headers = {"Sec-Fetch-Site": "same-origin"}
        with browser.open(Request(address, headers=headers)) as answer:  # noqa: S310 - our own server
            answer.read()
    seconds = perf_counter() - began
    process.send_signal(signal.SIGINT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measured(verb: str, runs: Path, count: int) -> Figure:
    """Return the figures of a verb over so many runs."""
    with tempfile.TemporaryDirectory() as out:
        command = [word.replace("RUNS", str(runs)).replace("OUT", f"{out}/0") for word in VERBS[verb]]
        again = [word.replace(f"{out}/0", f"{out}/1") for word in command]
        cold = viewed(runs) if verb == "view" else started(command)
        warm = viewed(runs) if verb == "view" else started(again)
    return Figure(verb, count, cold[0], warm[0], cold[1], warm[1], max(cold[2], warm[2]))


def table(figures: Sequence[Figure]) -> str:
    """Return a row for each verb and number of runs; the slope is the exponent by which processor time grew, warm."""
    lines = ["| verb | runs | processor cold, s | warm, s | MB | slope |", "|---|---|---|---|---|---|"]
    for at, figure in enumerate(figures):
        before = figures[at - 1] if at and figures[at - 1].verb == figure.verb else None
        slope = ""
        if before:
            slope = f"{log2(figure.warm_processor_s / before.warm_processor_s) / log2(figure.runs / before.runs):.2f}"
        seconds = f"{figure.cold_processor_s:.1f} | {figure.warm_processor_s:.1f}"
        lines.append(f"| {figure.verb} | {figure.runs:,} | {seconds} | {figure.peak_mb:.0f} | {slope} |")
    return "\n".join(lines)


def main() -> None:
    """Write the runs, time the verbs, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="+", default=SIZES)
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=list(VERBS))
    parser.add_argument("--keep", type=Path, help="a directory for the runs, which are kept and used again")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write an SVG of warm seconds against runs")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    figures = []
    with tempfile.TemporaryDirectory() as place:
        os.environ["XDG_CACHE_HOME"] = f"{place}/cache"
        for count in sorted(asked.runs):
            runs = (asked.keep or Path(place)) / f"runs-{count}"
            if not runs.exists():
                write_runs(runs, 0, count)
            figures += [measured(verb, runs, count) for verb in asked.verbs]
    figures.sort(key=lambda figure: (asked.verbs.index(figure.verb), figure.runs))
    if asked.plot:
        own = {verb: [figure for figure in figures if figure.verb == verb] for verb in asked.verbs}
        draw(
            {verb: [(each.runs, each.warm_processor_s) for each in of_verb] for verb, of_verb in own.items()},
            asked.plot,
        )
    print(json.dumps([asdict(figure) for figure in figures], indent=2) if asked.json else table(figures))


if __name__ == "__main__":
    main()
