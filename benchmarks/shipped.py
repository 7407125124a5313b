"""Makes the tables of runs that ship, and the reference anchors, from the records in ``results/``.

    python benchmarks/shipped.py take RUNS references     slim records of RUNS into results/, by agent and environment
    python benchmarks/shipped.py write                    results/ into analysis/published/data/*.jsonl, specs and docs/
    python benchmarks/shipped.py show references          print a table of docs/measure

``results/`` holds what was measured once, with the experiment's secret revealed beside it: anyone can play it again
(``evopolicygym verify --replay RUN``). Records are slimmed by the hidden episodes' files, which ``--replay`` makes
anew; with ``--documents`` by all but ``run.json``, which is what tables read.
"""

import argparse
import json
import shutil
from pathlib import Path
from statistics import median

from anchors import Measured, digits_of, rated, shown, write_anchors, write_tables
from evopolicygym.analysis.published.score_tables import AGENT, paper
from evopolicygym.analysis.results import load_results
from evopolicygym.core.score import estimate
from evopolicygym.core.task import Anchor
from evopolicygym.core.text import plus_minus
from evopolicygym.records.reader import find_runs
from evopolicygym.records.rows import RunRow
from evopolicygym.specs import catalog

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
DATA = ROOT / "src" / "evopolicygym" / "analysis" / "published" / "data"
KEPT = ("journal.jsonl", "run.json", "checkpoints", "workspace/feedback")
EXPERIMENT = ("experiment.json", "revealed.json")
KINDS = {"references": "reference", "baselines": "baseline"}
"""The tables that are made, and what their entries are."""
SECOND_SPLIT = "second_split"
"""Records of references on other hidden cases, which no table shows."""
REFERENCES = ROOT / "docs" / "measure" / "references.md"
FAILED_BELOW = {"roundabout": 9.0, "bipedal_walker": 200.0, "car_racing": 700.0}
"""The return below which a reference's case is counted as one that went wrong."""
REFERENCES_HEAD = """\
| environment | held-out ± s.e. | success | paper | standard errors above it |
|---|---|---|---|---|"""
BASELINES = ROOT / "docs" / "measure" / "baselines.md"
BASELINES_HEAD = """\
| environment | | steps | processor time | held-out ± s.e. | success | uniform random ± s.e. |
|---|---|---|---|---|---|---|"""


def main() -> None:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    taking = verbs.add_parser("take", help="copy runs into results/")
    taking.add_argument("experiment", type=Path, help="the directory of an experiment that is revealed")
    taking.add_argument("table", choices=[*KINDS, SECOND_SPLIT])
    taking.add_argument("--agents", nargs="+", help="default: all of the experiment")
    taking.add_argument("--documents", action="store_true", help="keep each run.json alone")
    verbs.add_parser("write", help="make the tables")
    verbs.add_parser("show", help="print a table").add_argument("shown", choices=[*SHOWN])
    options = parser.parse_args()
    if options.verb == "take":
        take(options.experiment, RESULTS / options.table, options.agents, ("run.json",) if options.documents else KEPT)
    elif options.verb == "show":
        print(SHOWN[options.shown]())
    else:
        for table, kind in KINDS.items():
            write(table, kind)
        write_reference_anchors()
        write_table(REFERENCES, references_table())
        write_table(BASELINES, baselines_table())


def take(experiment: Path, place: Path, agents: list[str] | None, kept: tuple[str, ...]) -> None:
    """Copy what is kept of an experiment's finished runs, and what reveals it; what is there already stays."""
    place.mkdir(parents=True, exist_ok=True)
    for name in EXPERIMENT:
        shutil.copyfile(experiment / name, place / name)
    for run in load_results([experiment]).runs:
        target = place / run.root.relative_to(experiment.resolve())
        if target.exists() or (agents and target.relative_to(place).parts[0] not in agents):
            continue
        for name in kept:
            source = run.root / name
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target / name)
            else:
                shutil.copyfile(source, target / name)
        print(target.relative_to(ROOT))


def write(table: str, kind: str) -> None:
    """Write one table: a line that tells of it, then the ``run.json`` of each run."""
    place = RESULTS / table
    if not place.is_dir():
        return
    about = {"source": f"{table} of this version, results/{table}", "kind": kind}
    documents = [
        json.loads((run / "run.json").read_text(encoding="utf-8")) for run in find_runs(place, frozenset({"run.json"}))
    ]
    lines = [json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in (about, *documents)]
    (DATA / f"{table}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_reference_anchors() -> None:
    """Put what the references scored into the specs, the docs and the table of anchors."""
    for run in load_results([RESULTS / "references"]).runs:
        write_anchors(Measured(run.task, {"reference": anchor_of(run)}))
    write_tables()


def write_table(document: Path, table: str) -> None:
    """Put a table into its document, where the one that begins with the same head is."""
    head, text = table.partition("\n")[0], document.read_text(encoding="utf-8")
    begin = text.index(head)
    document.write_text(text[:begin] + table + text[text.index("\n\n", begin) :], encoding="utf-8")


def references_table() -> str:
    """Return a row for each reference: its score, and how many of its standard errors it is above the paper's best."""
    rows, runs = [], {run.task: run for run in load_results([RESULTS / "references"]).runs}
    for task in paper().tasks:
        found = anchor_of(runs[task])
        digits = digits_of([found])
        best = max(one.scores[task] for one in paper().entries if one.kind == AGENT)
        above = (found.mean - best) / found.standard_error
        rows.append(f"| {task} | {shown(found, digits)} | {rated(found)} | {best:.{digits}f} | {above:+.1f} |")
    return "\n".join((REFERENCES_HEAD, *rows))


def baselines_table() -> str:
    """Return a row for each trained policy: budget, steps, processor time and score beside uniform random's."""
    rows, order = [], list(paper().tasks)
    for run in load_results([RESULTS / "baselines" / "policy"]).runs:
        (training,) = run.root.glob("checkpoints/*/training.json")
        told = json.loads(training.read_text(encoding="utf-8"))
        found, random = anchor_of(run), catalog.load(run.task).random_anchor
        digits = digits_of([found, random])
        row = (
            f"| {run.task} | {told['label']} | {told['steps']:,} | {told['processor_seconds']:,} s | "
            f"{shown(found, digits)} | {rated(found)} | {shown(random, digits)} |"
        )
        rows.append((order.index(run.task), told["processor_seconds"], row))
    return "\n".join((BASELINES_HEAD, *(row for *_, row in sorted(rows))))


def anchor_of(run: RunRow) -> Anchor:
    """Return a run's score as an anchor."""
    found = estimate(run.held_out_returns)
    return Anchor(found.mean, found.standard_error, found.count, run.success_rate)


def second_split_table() -> str:
    """Return the scores of the references that played a second experiment's cases, and of both splits together."""
    first = {run.task: run.held_out_returns for run in load_results([RESULTS / "references"]).runs}
    rows = ["| environment | second split ± s.e. | both splits ± s.e. |", "|---|---|---|"]
    for run in load_results([RESULTS / SECOND_SPLIT]).runs:
        found = estimate(run.held_out_returns), estimate(first[run.task] + run.held_out_returns)
        shown_means = (plus_minus(one.mean, one.standard_error) for one in found)
        rows.append(f"| {run.task} | {' | '.join(shown_means)} |")
    return "\n".join(rows)


def spread_table() -> str:
    """Return how many cases of a reference's record are below a return, the mean of the others, and the least."""
    rows = ["| environment | below | cases | mean of the others | least | median |", "|---|---|---|---|---|---|"]
    runs = {run.task: run.held_out_returns for run in load_results([RESULTS / "references"]).runs}
    for task, limit in FAILED_BELOW.items():
        others = [value for value in runs[task] if value >= limit]
        figures = estimate(others).mean, min(runs[task]), median(runs[task])
        shown_figures = " | ".join(f"{value:.2f}" for value in figures)
        rows.append(f"| {task} | {limit:g} | {len(runs[task]) - len(others)} | {shown_figures} |")
    return "\n".join(rows)


SHOWN = {
    "references": references_table,
    "baselines": baselines_table,
    "second_split": second_split_table,
    "spread": spread_table,
}
"""The tables of docs/measure that are made from ``results/``."""

if __name__ == "__main__":
    main()
