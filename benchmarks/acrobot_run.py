"""Times a whole Acrobot run through the judge, beside the plain loop over the same episodes, in one run.

    python benchmarks/acrobot_run.py [--repeats 3] [--json]

The run: 8 submissions of 16 train episodes, 16 validation cases for each of the 8 checkpoints, 32 held-out cases; the
policy swings up. Isolated, recorded, judged over HTTP. The plain loop: the same number of episodes of the same policy,
one process, one core, no isolation, no recording. Also: a submission of one short episode from request to published
feedback with a warm zygote, and the judge's own memory from the first submission to the last.
"""

import argparse
import json
import os
import resource
import statistics
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any

import gymnasium
from rich.console import Console
from rich.table import Table

from evopolicygym.core.agent import AgentConfig, AgentEnd, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.cases import PUBLIC_KEY, Split, SplitSource, derive
from evopolicygym.core.event import Event as RunEvent
from evopolicygym.core.event import RunFinished, RunOpened
from evopolicygym.core.run import RunState
from evopolicygym.core.task import BudgetRule, Task
from evopolicygym.records.paths import RunPaths
from evopolicygym.runs.config import RunConfig
from evopolicygym.runs.run import play
from evopolicygym.specs import catalog

SUBMISSIONS, EPISODES, VALIDATION, HELD_OUT = 8, 16, 16, 32
WHOLE_RUN_S, PRIZE_S, SUBMISSION_MS = 4.0, 2.2, 150.0
POLICY = """\
class Policy:
    '''Pump energy into the arm: torque along the second joint's velocity. Version {version}.'''

    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 2 if obs[5] > 0 else 0
"""


@dataclass(slots=True)
class Swinger:
    """An agent that submits the same swing-up policy under another name each time, and times its submissions."""

    submissions: tuple[str, ...]
    max_turns: int = 1
    seconds: list[float] = field(default_factory=list)
    memory_kb: list[int] = field(default_factory=list)

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Submit all there is to submit."""
        for version, indices in enumerate(self.submissions):
            if stop.is_set():
                break
            (workspace.system / "policy.py").write_text(POLICY.format(version=version))
            began = perf_counter()
            body = json.dumps({"env_instances": indices}).encode()
            request = urllib.request.Request(  # noqa: S310 - the judge's own address
                f"{endpoint.address.base_url}/submit", body, {"Content-Type": "application/json"}
            )
            urllib.request.urlopen(request).read()  # noqa: S310 - as above
            self.seconds.append(perf_counter() - began)
            self.memory_kb.append(resident_kb())
        return Turn(AgentEnd.FINISHED)


_PLAYER: list[Swinger] = []


def make(_config: AgentConfig) -> Swinger:
    """Return the agent of the run that is being timed."""
    return _PLAYER[-1]


@dataclass(frozen=True, slots=True)
class Timed:
    """One run."""

    whole_s: float
    """From the call to the score, workers' start included."""
    opened_s: float
    """From the opening of the record to the score."""
    steps: int


def main() -> None:
    """Measure in turn, ours and the plain loop, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    runs: list[Timed] = []
    loops: list[float] = []
    memory: list[tuple[int, int]] = []
    with state_of_its_own() as place:
        for _ in range(options.repeats):
            player = Swinger(tuple(f"{16 * one}-{16 * one + 15}" for one in range(SUBMISSIONS)))
            runs.append(timed(place, player, SUBMISSIONS * EPISODES))
            memory.append((player.memory_kb[0], player.memory_kb[-1]))
            loops.append(plain_loop())
        short = Swinger(("0",) * 24)
        timed(place, short, 24)
    figures = {
        "whole_run_s": statistics.median(run.whole_s for run in runs),
        "opened_to_score_s": statistics.median(run.opened_s for run in runs),
        "plain_loop_s": statistics.median(loops),
        "ratio_to_plain_loop": statistics.median(run.opened_s / loop for run, loop in zip(runs, loops, strict=True)),
        "short_submission_ms": 1000 * statistics.median(short.seconds[4:]),
        "judge_memory_mb": [statistics.median(one[end] for one in memory) / 1024 for end in (0, 1)],
        "steps": runs[0].steps,
    }
    print(json.dumps(figures, indent=2)) if options.json else Console().print(table(figures))


@contextmanager
def state_of_its_own() -> Iterator[Path]:
    """Keep secrets and records of the benchmark out of the user's directories."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ["XDG_STATE_HOME"] = f"{directory}/state"
        yield Path(directory)


def timed(place: Path, player: Swinger, budget: int) -> Timed:
    """Play one whole run."""
    _PLAYER.append(player)
    task = Task(catalog.load("acrobot"), BudgetRule(budget), validation_cases=VALIDATION, held_out_cases=HELD_OUT)
    config = RunConfig(task, AgentConfig(f"{__name__}:make"), split=SplitSource.PUBLIC, runs=place / "runs")
    moments: dict[type, float] = {}

    def opened(_paths: RunPaths, _state: RunState) -> None:
        moments[RunOpened] = perf_counter()

    def observe(event: RunEvent, _state: RunState) -> None:
        moments[type(event)] = perf_counter()

    began = perf_counter()
    state = play(config, opened, observe)
    steps = sum(episode.length for one in state.submissions for episode in one.episodes if episode)
    steps += sum(episode.length for one in state.hidden for episode in one.episodes if episode)
    return Timed(moments[RunFinished] - began, moments[RunFinished] - moments[RunOpened], steps)


def plain_loop() -> float:
    """Return the seconds that the same episodes take in a plain loop, a fresh environment for each."""
    cases = derive(PUBLIC_KEY, "acrobot").seeds
    seeds = [*cases[Split.TRAIN][: SUBMISSIONS * EPISODES], *(cases[Split.VALIDATION][:VALIDATION] * SUBMISSIONS)]
    seeds += cases[Split.HELD_OUT][:HELD_OUT]
    namespace: dict[str, Callable[..., object]] = {}
    exec(POLICY.format(version=0), namespace)  # noqa: S102 - our own text
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    began = perf_counter()
    for seed in seeds:
        environment, policy = (
            gymnasium.make("Acrobot-v1", disable_env_checker=True),
            namespace["Policy"](None, None, None),
        )
        observation, over = environment.reset(seed=seed)[0], False
        while not over:
            observation, _, terminated, truncated, _ = environment.step(policy.act(observation))  # type: ignore[attr-defined]
            over = terminated or truncated
        environment.close()
    seconds = perf_counter() - began
    os.sched_setaffinity(0, cores)
    return seconds


def resident_kb() -> int:
    """Return the resident memory of this process, in KiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def table(figures: dict[str, Any]) -> Table:
    """Return the figures beside what is asked."""
    shown = Table(box=None, padding=(0, 2), header_style="dim")
    for heading in ("", "ours", "asked"):
        shown.add_column(heading)
    first, last = figures["judge_memory_mb"]
    rows = (
        (
            "whole run, opening to score, s",
            f"{figures['opened_to_score_s']:.2f}",
            f"< {WHOLE_RUN_S:g} (prize {PRIZE_S:g})",
        ),
        ("whole run, workers' start included, s", f"{figures['whole_run_s']:.2f}", ""),
        ("plain loop on one core, s", f"{figures['plain_loop_s']:.2f}", ""),
        ("opening to score / plain loop", f"{figures['ratio_to_plain_loop']:.2f}", ""),
        ("submission of one short episode, ms", f"{figures['short_submission_ms']:.0f}", f"< {SUBMISSION_MS:g}"),
        ("judge's memory, first and last submission, MB", f"{first:.0f}, {last:.0f}", "flat"),
        ("steps", str(figures["steps"]), ""),
    )
    for row in rows:
        shown.add_row(*row)
    return shown


if __name__ == "__main__":
    main()
