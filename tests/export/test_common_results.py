"""Scores for common results: Every Eval Ever's schema and Hugging Face's files of evaluations."""

import json
import math
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.task import TaskText
from evopolicygym.export.exporters import export
from exported import recorded
from fakes import opening, whole_run
from made_up import opened
from places import ROOT

pytestmark = pytest.mark.made_up

VALIDATOR = ROOT / ".harbor" / "bin" / "every_eval_ever"


def run_of(place: Path, run_id: str, agent: AgentConfig, **changes: Any) -> Path:
    """Write a finished run of an agent."""
    _, *others = whole_run()
    return recorded(place / run_id, [opening(run_id=run_id, agent=agent, **changes), *others]).root


def records(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted(directory.rglob("*.json"))]


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two runs of one agent with a model, one of the same agent with another text, one without a model, one open."""
    agent = AgentConfig("claude_code", "acme/able 1", effort="high")
    terse = replace(opening().task, choices={"text": TaskText.TERSE.value})
    return [
        run_of(tmp_path / "runs", "a", agent),
        run_of(tmp_path / "runs", "b", agent),
        run_of(tmp_path / "runs", "c", agent, task=terse),
        run_of(tmp_path / "runs", "d", AgentConfig("tuner")),
        recorded(tmp_path / "runs" / "e", [opening(run_id="e", agent=agent)]).root,
    ]


def test_every_eval_ever(runs: list[Path], tmp_path: Path) -> None:
    """Runs are put together where agent and settings agree; a single run's error is over its cases."""
    result = export("every-eval-ever", opened(*runs), tmp_path / "out")
    found: dict[str, list[dict[str, Any]]] = {}
    for record in records(tmp_path / "out"):
        found.setdefault(record["model_info"]["id"], []).append(record)

    assert {name: len(entries) for name, entries in found.items()} == {"acme/able-1": 2, "evopolicygym/tuner": 1}
    details = [entry["evaluation_results"][0]["score_details"] for entry in found["acme/able-1"]]
    assert sorted((one["details"]["repeats"], one["details"]["runs"]) for one in details) == [("1", "c"), ("2", "a b")]
    (pair,) = [one for one in details if one["details"]["repeats"] == "2"]
    assert (pair["uncertainty"]["standard_error"]["value"], pair["uncertainty"]["num_samples"]) == (0.0, 2)
    assert math.isfinite(pair["score"])
    assert any("e is left out" in note for note in result.notes)


def test_the_same_runs_have_the_same_file(runs: list[Path], tmp_path: Path) -> None:
    """A record's name comes from what is in it."""
    for place in ("first", "second"):
        export("every_eval_ever", opened(*runs), tmp_path / place)
    first, second = (sorted(path.name for path in (tmp_path / place).rglob("*.json")) for place in ("first", "second"))

    assert first == second


def test_hf_eval_results(runs: list[Path], tmp_path: Path) -> None:
    """An agent's settings have a file each; one that asks no model has none."""
    result = export("hf-eval-results", opened(*runs), tmp_path / "out")
    files = sorted(path for path in (tmp_path / "out").rglob("*.yaml"))
    entries = [entry for path in files for entry in yaml.safe_load(path.read_text(encoding="utf-8"))]

    assert [path.parent.relative_to(tmp_path / "out").parts for path in files] == [
        ("acme-able-1", "claude_code", ".eval_results")
    ] * 2
    assert {entry["dataset"]["task_id"] for entry in entries} == {"toy"}
    assert all("claude_code" in entry["notes"] and "effort high" in entry["notes"] for entry in entries)
    assert any("tuner is left out" in note for note in result.notes)


@pytest.mark.tools
@pytest.mark.parametrize("source", ["made", "shipped"])
def test_the_owner_takes_the_records(source: str, runs: list[Path], tmp_path: Path) -> None:
    """Every Eval Ever's own validator has neither errors nor warnings."""
    if not VALIDATOR.is_file():
        pytest.skip("make harbor installs the validator")
    roots = runs if source == "made" else sorted(path.parent for path in ROOT.glob("results/references/**/run.json"))
    export("every-eval-ever", opened(*roots), tmp_path / "out")
    files = [str(path) for path in (tmp_path / "out").rglob("*.json")]
    done = subprocess.run(
        [VALIDATOR, "validate", "--format", "json", *files], capture_output=True, text=True, cwd=tmp_path, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout.lower() or '"warnings": []' in done.stdout
