"""Scores in the schema of Every Eval Ever 0.3.0: ``data/evopolicygym/DEVELOPER/MODEL/UUID.json`` for each agent.

Each task has a result for its mean held-out return and, if known, for the normalised return and the success rate.
"""

import json
import uuid
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from evopolicygym.core.score import Estimate
from evopolicygym.core.text import unix_time
from evopolicygym.export.evaluations import AgentEntry, EvaluationsExporter, TaskEvaluation, write_text
from evopolicygym.export.exporters import WrittenFile
from evopolicygym.version import __version__

SCHEMA_VERSION = "0.3.0"
COLLECTION = "evopolicygym"
METRICS = {
    "return": ("Mean held-out return", "points", None, None),
    "normalised": ("Normalised held-out return: 0 is random play, 1 the reference, clipped", "proportion", 0.0, 1.0),
    "success": ("Share of held-out episodes that succeeded", "proportion", 0.0, 1.0),
}
"""Each metric's description, unit and bounds."""


class Exporter(EvaluationsExporter):
    """Writes a record for each agent."""

    def write(self, entry: AgentEntry, tasks: list[TaskEvaluation]) -> WrittenFile:
        """Write an agent's record; its name follows from its runs."""
        runs = sorted(row.run_id for task in tasks for row in task.runs)
        identity = sha256(f"{COLLECTION}/{entry.model_id}/{' '.join(runs)}".encode()).digest()
        name = uuid.UUID(bytes=identity[:16], version=4)  # the version that the schema requires
        record = record_of(entry, tasks, str(name))
        path = self.directory.joinpath("data", COLLECTION, *entry.model_id.split("/"), f"{name}.json")
        text = json.dumps(record, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
        return write_text(self.directory, path, text, len(record["evaluation_results"]))

    def finish(self) -> list[WrittenFile]:
        """Write all records, and note the fields that their owner must fill in."""
        written = super().finish()
        if written:
            self.notes.append(
                "Fill in source_metadata.source_organization_name and the model's deployment_type and "
                "model_availability, which are 'unknown', before the files are published."
            )
        return written


def record_of(entry: AgentEntry, tasks: list[TaskEvaluation], name: str) -> dict[str, Any]:
    """Return one agent's record."""
    now = str(int(unix_time()))
    details = {"harness": entry.harness, "reasoning_effort": entry.effort or "not set", "label": entry.agent}
    developer = entry.model_id.split("/")[0]
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{COLLECTION}/{entry.model_id}/{name}",
        "evaluation_timestamp": max(task.finished for task in tasks).isoformat(),
        "retrieved_timestamp": now,
        "source_metadata": {
            "source_name": "EvoPolicyGym",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "evopolicygym", "version": __version__, "additional_details": dict(entry.settings)},
        "model_info": {
            "name": entry.model or entry.agent,
            "id": entry.model_id,
            "developer": developer,
            "additional_details": {"deployment_type": "unknown", "model_availability": "unknown", **details},
        },
        "evaluation_results": [result for task in tasks for result in _results(entry, task)],
    }


def _results(entry: AgentEntry, task: TaskEvaluation) -> Iterator[dict[str, Any]]:
    values = {"return": task.returns, "normalised": task.normalised, "success": task.success}
    for metric, value in values.items():
        if value is not None:
            yield _result(entry, task, metric, value)


def _result(entry: AgentEntry, task: TaskEvaluation, metric: str, value: Estimate) -> dict[str, Any]:
    description, unit, low, high = METRICS[metric]
    repeats = len(task.runs)
    over = "runs" if repeats > 1 else "held-out cases of the run"
    uncertainty: dict[str, Any] = {"num_samples": value.count}
    if value.standard_error is not None:
        uncertainty["standard_error"] = {"value": value.standard_error, "method": f"analytic, over {over}"}
    details = {
        "environment_id": task.row.environment_id,
        "repeats": str(repeats),
        "held_out_cases": str(task.row.held_out_cases),
        "runs": " ".join(row.run_id for row in task.runs),
        "spec_sha256": task.row.task_fingerprint,
    }
    return {
        "evaluation_result_id": f"{task.row.task}/{metric}",
        "evaluation_name": f"evopolicygym/{task.row.task}",
        "source_data": {"dataset_name": f"EvoPolicyGym {task.row.task}", "source_type": "other"},
        "evaluation_timestamp": task.finished.isoformat(),
        "metric_config": {
            "evaluation_description": f"{description}. The agent had a budget of {task.row.budget} episodes.",
            "metric_id": f"evopolicygym.{metric}",
            "metric_name": description.split(":")[0],
            "metric_kind": metric,
            "metric_unit": unit,
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": "-Infinity" if low is None else low,
            "max_score": "Infinity" if high is None else high,
        },
        "score_details": {"score": value.mean, "details": details, "uncertainty": uncertainty},
        "generation_config": {
            "generation_args": {
                "agentic_eval_config": {"additional_details": {"harness": entry.harness}},
                "sandbox": {"type": task.row.isolation},
                "max_attempts": task.row.budget,
            },
            "additional_details": dict(entry.settings),
        },
    }
