"""Many honest run records, quickly: copies of a real run's run.json with other agents, tasks and returns."""

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from evopolicygym.analysis.published.score_tables import paper, shipped
from evopolicygym.records import run_document
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.rows import RunRow
from evopolicygym.records.writer import RunWriter
from evopolicygym.specs import catalog
from fakes import whole_run

TASKS = sorted(paper().tasks)
CASES = 32


def real_document(root: Path) -> dict[str, Any]:
    """Return the document of a whole run on the toy, as it is derived from a journal."""
    events = whole_run()
    with RunWriter(root, events[0]) as writer:
        for event in events[1:]:
            writer.record(event)
    document: dict[str, Any] = json.loads(run_document.document_text(RunPaths(root)))
    return document


def changed(document: dict[str, Any], task: str, agent: str, returns: Sequence[float], seed: int = 0) -> dict[str, Any]:
    """Return a run's document with another task, agent and outcome."""
    new = deepcopy(document)
    new["task"]["environment"] = json.loads(json.dumps(asdict(catalog.load(task))))
    new["task"]["held_out_cases"] = len(returns)
    new["agent"]["name"], new["seed"] = agent, seed
    new["run_id"], new["commitment"] = f"{agent}-{task}-{seed}", f"commitment to {task}"
    new["outcome"] |= {"held_out_returns": list(returns), "score": float(np.mean(returns))}
    return new


def made_result(task: str, agent: str, returns: Sequence[float], seed: int = 0, **changes: Any) -> RunRow:
    """Return a run's result without a record: a shipped run's, with another task, agent and outcome."""
    template = next(run for run in shipped("baselines").runs if run.agent == "tuner")
    outcome = {"run_id": f"{agent}-{task}-{seed}", "root": Path(f"{agent}-{task}-{seed}"), "commitment": task}
    return replace(
        template,
        **{**outcome, "task": task, "agent": agent, "agent_kind": agent, "model": None, "seed": seed, **changes},
        held_out_returns=tuple(returns),
    )


def write(below: Path, document: dict[str, Any]) -> Path:
    """Write a document as a run of its own below a directory; return the run's directory."""
    root = below / f"run-{len(list(below.iterdir())) if below.is_dir() else 0:04d}"
    root.mkdir(parents=True)
    (root / "run.json").write_text(json.dumps(document, indent=2), encoding="utf-8")
    return root


def write_many(
    below: Path, real: Path, agents: Sequence[str], repeats: int, tasks: Sequence[str] = TASKS, cases: int = CASES
) -> int:
    """Write records of agents of falling strength on many tasks; return how many."""
    random, document = np.random.default_rng(0), real_document(real)
    for task in tasks:
        of_cases = random.normal(size=cases)
        anchor = catalog.load(task).random_anchor
        low = anchor.mean if anchor else 0.0
        for place, agent in enumerate(agents):
            for seed in range(repeats):
                level = low + 10 * (len(agents) - place) + random.normal()
                write(
                    below, changed(document, task, agent, (level + of_cases + random.normal(size=cases)).tolist(), seed)
                )
    return len(tasks) * len(agents) * repeats
