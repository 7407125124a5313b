"""Measures the random and the idle anchor of every environment on the public split, beside the paper's random column.

    python benchmarks/anchors.py                          all environments, the first 32 held-out cases
    python benchmarks/anchors.py acrobot reacher          these
    python benchmarks/anchors.py --write                  and put the numbers into the specs and docs/environments.md

Anchors play through the same sandbox and the same rollout as any policy.
"""

import argparse
import json
import math
import re
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track

from evopolicygym.analysis.published import paper
from evopolicygym.core.cases import PUBLIC_KEY, Split, derive
from evopolicygym.core.environment import EnvironmentSpec
from evopolicygym.core.policy import PolicyContext
from evopolicygym.core.rollout import Recording
from evopolicygym.core.score import Estimate, estimate
from evopolicygym.core.task import Limits
from evopolicygym.environments import catalog
from evopolicygym.judge.dealer import Dealer
from evopolicygym.rollout.executors.local import LocalExecutor

ROOT = Path(__file__).resolve().parent.parent
SPECS = ROOT / "src" / "evopolicygym" / "environments" / "specs"
STARTER = ROOT / "src" / "evopolicygym" / "runs" / "desk" / "system"
TABLE = ROOT / "docs" / "environments.md"
CASES = 32
IDLE_POLICY = """\
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return {action!r}
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """Both anchors of one environment."""

    name: str
    random: Estimate
    random_success: float | None
    idle: Estimate
    idle_success: float | None


def main() -> None:
    """Measure what is asked for, print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="environments; default: all")
    parser.add_argument("--cases", type=int, default=CASES, help="held-out cases of the public split")
    parser.add_argument("--write", action="store_true", help="put the numbers into the specs and the docs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    console = Console(stderr=True)
    names = options.names or catalog.names()
    measured = []
    for name in track(names, "environments", console=console):
        one = measure(catalog.load(name), options.cases)
        console.print(line(one))
        measured.append(one)
        if options.write:
            write_anchors(one)
    if options.json:
        print(json.dumps([asdict(one) for one in measured], indent=2))
    if options.write and not options.names:
        TABLE.write_text(document(measured, options.cases), encoding="utf-8")


def measure(spec: EnvironmentSpec, cases: int) -> Measured:
    """Play both anchors on the first so many held-out cases of the public split."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "idle").mkdir()
        (place / "idle" / "policy.py").write_text(IDLE_POLICY.format(action=spec.idle_action))
        with LocalExecutor(spec, Limits(), "auto", place / "workers", place / "log") as executor:
            random, random_success = play(executor, spec, STARTER, cases)
            idle, idle_success = play(executor, spec, place / "idle", cases)
    return Measured(spec.name, random, random_success, idle, idle_success)


def play(executor: LocalExecutor, spec: EnvironmentSpec, policy: Path, cases: int) -> tuple[Estimate, float | None]:
    """Return a policy's mean return and success rate."""
    grounds = executor.grounds
    context = PolicyContext(spec.name, 0, cases, 0, spec.max_steps, grounds.observation_schema, grounds.action_schema)
    dealer = Dealer(derive(PUBLIC_KEY, spec.name), PUBLIC_KEY, run_seed=0)
    jobs = [dealer.job(Split.HELD_OUT, index, index, None, Recording.OUTPUT) for index in range(cases)]
    episodes = [episode for _, episode in executor.play(policy, context, jobs, lambda _job, _why: None)]
    if failed := [episode.failure for episode in episodes if episode.failure]:
        raise SystemExit(f"{spec.name}: an anchor failed: {failed[0].message}")
    known = [episode.success for episode in episodes if episode.success is not None]
    rate = sum(known) / len(known) if known else None
    ordered = sorted(episode.episode_return for episode in episodes)  # so that the sum doesn't depend on who was first
    return estimate(ordered), rate


def write_anchors(one: Measured) -> None:
    """Put an environment's anchors into its spec."""
    file = SPECS / f"{one.name}.toml"
    text = re.sub(r"^(random|idle)_anchor = .*\n", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = "".join(
        f"{kind}_anchor = {{ mean = {found.mean:.6g}, standard_error = {found.standard_error:.3g}, "
        f"episodes = {found.count} }}\n"
        for kind, found in (("random", one.random), ("idle", one.idle))
    )
    file.write_text(text.rstrip("\n") + "\n" + re.sub(r"= (-?\d+)([ ,])", r"= \1\2", lines), encoding="utf-8")


def deviation(one: Measured) -> float | None:
    """Return how many standard errors our random lies from the paper's; None where the paper has none."""
    published = paper().scores(one.name).get("Uniform random")
    if published is None:
        return None
    if one.random.standard_error == 0:
        return 0.0 if one.random.mean == published else math.inf
    return (one.random.mean - published) / one.random.standard_error


def line(one: Measured) -> str:
    """Return one environment's numbers, for the terminal."""
    apart = deviation(one)
    beside = "" if apart is None else f", s.e. from the paper's: {away(apart)}"
    return f"{one.name}: random {shown(one.random)}{beside}; idle {shown(one.idle)}"


def away(apart: float | None) -> str:
    """Return a deviation for a table; where our standard error is 0, it can't be told in standard errors."""
    if apart is None:
        return ""
    return f"{apart:+.1f}" if math.isfinite(apart) else "see below"


def shown(found: Estimate) -> str:
    """Return an estimate for a table."""
    return f"{found.mean:.2f} ± {found.standard_error:.2f}"


def document(measured: list[Measured], cases: int) -> str:
    """Return docs/environments.md."""
    rows = []
    for one in sorted(measured, key=lambda one: (catalog.load(one.name).family, one.name)):
        spec = catalog.load(one.name)
        published = paper().scores(one.name).get("Uniform random")
        apart = deviation(one)
        rate = "" if one.random_success is None else f"{one.random_success:.0%} / {one.idle_success:.0%}"
        rows.append(
            f"| {one.name} | {spec.id} | {spec.family} | {spec.kind} | {spec.max_steps} | {shown(one.random)} | "
            f"{'' if published is None else f'{published:.2f}'} | {away(apart)} | {shown(one.idle)} | {rate} |"
        )
    return HEAD.format(cases=cases) + "\n".join(rows) + "\n" + NOTES


HEAD = """\
# Environments

Mean returns with standard errors over the first {cases} held-out cases of the public split, by `make anchors`, which
plays both anchors through the same sandbox as any policy. *random* draws actions uniformly; *idle* is the zero or no-op
action at every step; *paper* is the random column of arXiv 2607.02440, table 1, and *apart* is how many of our standard
errors ours lies from it. Success rates are those of random and idle, where the environment knows success.

| name | gymnasium id | family | kind | steps | random | paper | apart | idle | success |
|---|---|---|---|---|---|---|---|---|---|
"""
NOTES = """
Random play in the Fetch pair never solves a case by itself: a return is 0 where the block happens to start within 5 cm
of its goal, else -50. In fetch_pick_and_place that is about one case in twenty, so a mean over 32 cases says little:
none of ours is one, and 4 of the paper's 32 were (-43.75 = -50 · 28/32). Over all 256 held-out cases of that split
random scores -47.42 ± 0.67 (`python benchmarks/anchors.py fetch_pick_and_place --cases 256`); the standard error of a
mean over 32 such cases is 1.9, and the paper's lies 1.9 of these from it.
"""


if __name__ == "__main__":
    main()
