"""Measures the anchors of every environment on the public split, beside the paper's random column.

    python benchmarks/anchors.py                          all environments, 256 held-out cases
    python benchmarks/anchors.py acrobot reacher          these
    python benchmarks/anchors.py mine.toml --json         a spec of yours, as numbers to be copied into it
    python benchmarks/anchors.py parking --kinds degenerate --cases 32
    python benchmarks/anchors.py --write                  and put the numbers into specs, shipped table and docs

What is measured, and how, is said in ``runs/anchors.py``; this writes it where Core16's numbers stand.
The fourth anchor, *reference*, comes from the runs in ``results/`` (``benchmarks/shipped.py``).
"""

import argparse
import json
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track

from evopolicygym.analysis.published.score_tables import ANCHOR, paper
from evopolicygym.core.task import Anchor, EnvironmentSpec
from evopolicygym.runs.anchors import CASES, AnchorKind, measure_anchors, measure_repeated
from evopolicygym.specs import catalog
from evopolicygym.specs.catalog import anchor_line

ROOT = Path(__file__).resolve().parent.parent
SPECS = ROOT / "src" / "evopolicygym" / "specs"
TABLE = ROOT / "docs" / "reference" / "environments.md"
SHIPPED = ROOT / "src" / "evopolicygym" / "analysis" / "published" / "data" / "anchors.toml"
KINDS = tuple(kind.value for kind in AnchorKind)
DEGENERATE = {"parking": [1.0, 0.0]}
"""Actions that, repeated, end an episode early, where that gains more than it costs: full throttle into a wall. They
are named here, so that the anchors of Core16 are always those of the same policies."""
SOURCE = "anchors, held-out cases of the public split"
ENTRIES = {
    "random": ("Uniform random", ANCHOR),
    "idle": ("Idle action", "idle"),
    "degenerate": ("Ending early", "degenerate"),
}
"""What each anchor is called in the table that ships, and its kind there."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The anchors of one environment, by kind."""

    name: str
    anchors: dict[str, Anchor]


def main() -> None:
    """Measure what is asked for, print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="environments, or specs' .toml files; default: all in the catalog")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="default: all")
    parser.add_argument("--cases", type=int, default=CASES, help="held-out cases of the public split")
    parser.add_argument("--write", action="store_true", help="put the numbers into the specs and the docs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.write and (files := [name for name in options.names if name.endswith(".toml")]):
        parser.error(f"--write writes specs of the catalog only; copy what is printed into {files[0]}")
    console = Console(stderr=True)
    names = options.names or catalog.names()
    measure_anchors = []
    for name in track(names, "environments", console=console):
        one = measure(catalog.load(name), options.kinds, options.cases)
        console.print(line(one))
        measure_anchors.append(one)
        if options.write:
            write_anchors(one)
            write_tables()
    if options.json:
        print(json.dumps([asdict(one) for one in measure_anchors], indent=2))


def measure(spec: EnvironmentSpec, kinds: Iterable[str], cases: int) -> Measured:
    """Play anchors on the first so many held-out cases of the public split; those that there are not are left out."""
    asked = {AnchorKind(kind) for kind in kinds}
    played = asked - {AnchorKind.DEGENERATE}
    found = (
        {kind.value: one.anchor for kind, one in measure_anchors(spec, cases, played).by_kind.items()} if played else {}
    )
    if AnchorKind.DEGENERATE in asked and spec.name in DEGENERATE:
        found[AnchorKind.DEGENERATE.value] = measure_repeated(spec, DEGENERATE[spec.name], cases)
    return Measured(spec.name, found)


def write_anchors(one: Measured) -> None:
    """Put what was measured of an environment into its spec; other anchors stay."""
    file = SPECS / f"{one.name}.toml"
    file.write_text(with_anchors(file.read_text(encoding="utf-8"), one.anchors), encoding="utf-8")


def with_anchors(text: str, anchors: dict[str, Anchor]) -> str:
    """Return a spec with its anchors as they are now: where they stood, or else before its first table."""
    for kind, found in anchors.items():
        line = anchor_line(f"{kind}_anchor", found)
        text, stood = re.subn(rf"^{kind}_anchor = .*\n", line, text, flags=re.MULTILINE)
        if not stood:
            top, table, rest = text.partition("\n[") if "\n[" in text else (text.rstrip("\n"), "", "")
            text = f"{top.rstrip()}\n{line}{table}{rest}"
    return text


def write_tables() -> None:
    """Tell what the specs hold in the table that ships and in the docs."""
    SHIPPED.write_text(shipped_table(), encoding="utf-8")
    families = TABLE.read_text(encoding="utf-8").partition("## Core16")[0]
    TABLE.write_text(families + document(), encoding="utf-8")


def shipped_table() -> str:
    """Return the anchors of Core16's specs as a table that ships."""
    specs = [catalog.load(name) for name in paper().tasks]
    lines = ["# Written by benchmarks/anchors.py, from the anchors in the specs.", f"source = {json.dumps(SOURCE)}"]
    lines += ["", "[tasks]"]
    lines += [f'{spec.name} = {{ family = "{spec.family}", kind = "{spec.kind}" }}' for spec in specs]
    for kind, (name, entry_kind) in ENTRIES.items():
        anchors = {spec.name: anchor for spec in specs if (anchor := getattr(spec, f"{kind}_anchor"))}
        if not anchors:
            continue
        rates = {task: one.success_rate for task, one in anchors.items() if one.success_rate is not None}
        parts = {
            "scores": {task: one.mean for task, one in anchors.items()},
            "standard_errors": {task: one.standard_error for task, one in anchors.items()},
            "success_rates": rates,
        }
        lines += ["", "[[entries]]", f'name = "{name}"', f'kind = "{entry_kind}"']
        for part, values in parts.items():
            lines += [f"[entries.{part}]", *(f"{task} = {float(value)!r}" for task, value in values.items())]
    return "\n".join(lines) + "\n"


def deviation(name: str, random: Anchor | None) -> float | None:
    """Return how many standard errors our random lies from the paper's; None where either is missing."""
    published = paper().scores(name).get("Uniform random")
    if published is None or random is None:
        return None
    if random.standard_error == 0:
        return 0.0 if random.mean == published else math.inf
    return (random.mean - published) / random.standard_error


def line(one: Measured) -> str:
    """Return one environment's numbers, for the terminal."""
    digits = digits_of(one.anchors.values())
    found = "; ".join(f"{kind} {shown(anchor, digits)} {rated(anchor)}" for kind, anchor in one.anchors.items())
    apart = deviation(one.name, one.anchors.get("random"))
    return f"{one.name}: {found}" + (
        "" if apart is None else f"; {away(apart)} of our s.e. from the paper's random, whose own is unknown"
    )


def away(apart: float | None) -> str:
    """Return a deviation for a table; where our standard error is 0, it can't be told in standard errors."""
    if apart is None:
        return ""
    return f"{apart:+.1f}" if math.isfinite(apart) else "see below"


def shown(found: Anchor | None, digits: int = 2) -> str:
    """Return an anchor's mean for a table, with as many digits as specs keep of its standard error: three."""
    if found is None:
        return ""
    known = digits - (found.standard_error >= 10)  # noqa: PLR2004 - then one of the three stands farther left
    return f"{found.mean:.{known}f} ± {found.standard_error:.{known}f}"


def digits_of(anchors: Iterable[Anchor | None]) -> int:
    """Return how many digits behind the point tell one environment's anchors apart: more where returns are below 1."""
    return 4 if max((abs(one.mean) for one in anchors if one), default=1) < 1 else 2


def rated(found: Anchor | None) -> str:
    """Return an anchor's success rate for a table."""
    return "" if found is None or found.success_rate is None else f"{found.success_rate:.1%}".replace(".0%", "%")


def document() -> str:
    """Return the section on Core16 of docs/reference/environments.md, from the anchors that the specs hold."""
    specs = sorted((catalog.load(name) for name in catalog.names()), key=lambda spec: (spec.family, spec.name))
    rows = []
    for spec in specs:
        published = paper().scores(spec.name).get("Uniform random")
        anchors = (spec.random_anchor, spec.idle_anchor, spec.reference_anchor, spec.degenerate_anchor)
        random, idle, reference, degenerate = anchors
        digits = digits_of(anchors)
        rates = " / ".join(rated(anchor) or "-" for anchor in anchors) if any(map(rated, anchors)) else ""
        rows.append(
            f"| {spec.name} | {spec.id} | {spec.family} | {spec.kind} | {spec.max_steps} | {shown(random, digits)} | "
            f"{'' if published is None else f'{published:.{digits}f}'} | {away(deviation(spec.name, random))} | "
            f"{shown(idle, digits)} | {shown(reference, digits)} | {shown(degenerate, digits)} | {rates} |"
        )
    return HEAD + "\n".join(rows) + "\n" + NOTES


HEAD = """\
## Core16

Mean returns with standard errors over the first 256 held-out cases of the public split, measured by `make anchors` in
the same sandbox as any policy.

- *random* draws actions uniformly; *idle* takes the zero or no-op action at every step.
- *reference* is a policy that a person wrote ([references](../measure/references.md)), on the cases of the runs in
  `results/`.
- *degenerate* ends episodes early on purpose, which in parking (full throttle into a wall) scores more than most
  driving.
- *paper* is the random column of arXiv 2607.02440, table 1. *apart* is the difference between both in standard errors
  of *random*; the paper's own error is unknown (over 32 cases, about three times as large).
- *success* has the success rates of random, idle, reference and degenerate, if the environment knows success.

| name | gymnasium id | family | kind | steps | random ± s.e. | paper | apart | \
idle ± s.e. | reference ± s.e. | degenerate ± s.e. | success |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""
NOTES = """
In parking the paper counts success by highway-env's `info["is_success"]`, which is also true for a car that crashes in
the step that brings it into the goal spot. Here success requires `is_success` without a crash in the last step. Returns
are the same under both rules. An episode in which a policy failed is never a success.

In the Fetch pair random play never solves a case by itself: a return is 0 if the block happens to start within 5 cm of
its goal, else -50. In fetch_pick_and_place that is about one case in twenty, so a mean over 32 cases says little: 4 of
the paper's 32 were (-43.75 = -50 · 28/32), which is 1.9 standard errors of such a mean away from the value here.

Seven simulators have fast replacements: parts of parking, roundabout, car_racing and the four MiniGrid ones are new,
so that a step costs a fifth, two fifths, half and a third of the original's, with identical results, bit for bit.
`tests/environments/test_fast_simulators.py` compares both. With other versions of these packages, or of numpy, pandas,
Box2D or pygame where these matter, the original simulators are used ([decision](../decisions/0003-shortcuts.md)).
"""


if __name__ == "__main__":
    main()
