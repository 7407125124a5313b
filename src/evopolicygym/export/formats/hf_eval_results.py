"""Scores for Hugging Face's model pages: ``MODEL/.eval_results/evopolicygym.yaml`` for each model.

The value is the mean held-out return; the notes have the harness, the repeats, the error and the settings.
"""

import json

from evopolicygym.export.evaluations import AgentEntry, EvaluationsExporter, TaskEvaluation, path_part, write_text
from evopolicygym.export.exporters import WrittenFile

DATASET = "evopolicygym/core16"
"""The dataset of the benchmark that entries name; its own `eval.yaml` must list the tasks."""
NOTED = ("budget", "held_out_cases", "text", "interface", "world", "isolation", "split")


class Exporter(EvaluationsExporter):
    """Writes a file for each agent with a model; each harness of a model has its own directory."""

    def write(self, entry: AgentEntry, tasks: list[TaskEvaluation]) -> WrittenFile | None:
        """Write one agent's entries."""
        if not entry.model:
            self.notes.append(f"{entry.agent} is left out: it has no model, and these files are for model pages.")
            return None
        directory = self.directory.joinpath(path_part(entry.model), path_part(entry.agent))
        path = directory / ".eval_results" / "evopolicygym.yaml"
        number = 1
        while path.exists():  # the same agent with other settings
            number += 1
            path = path.with_name(f"evopolicygym-{number}.yaml")
        return write_text(self.directory, path, "".join(_entry(entry, task) for task in tasks), len(tasks))


def _entry(entry: AgentEntry, task: TaskEvaluation) -> str:
    """Return one task's entry as YAML; a JSON string is a YAML string."""
    value = task.returns
    error = "" if value.standard_error is None else f" ± {value.standard_error:.4g} (standard error)"
    repeats = len(task.runs)
    over = f"{repeats} runs" if repeats > 1 else f"1 run of {value.count} held-out cases"
    parts = [f"mean held-out return{error}, {over}", f"harness {entry.harness}"]
    if entry.effort:
        parts.append(f"effort {entry.effort}")
    if task.normalised is not None:
        parts.append(f"normalised {task.normalised.mean:.4g} (0 random, 1 reference)")
    parts += [f"{name} {setting}" for name, setting in entry.settings if name in NOTED]
    return (
        f"- dataset:\n    id: {json.dumps(DATASET)}\n    task_id: {json.dumps(task.row.task)}\n"
        f"  value: {value.mean!r}\n  date: {json.dumps(task.finished.date().isoformat())}\n"
        f"  notes: {json.dumps('; '.join(parts), ensure_ascii=False)}\n"
    )
