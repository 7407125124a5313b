"""The edits of a run, as rows: each submission's parent, the kind of edit, and its result.

A document of its own, as parsing many checkpoints takes a moment.
"""

from typing import Any

from evopolicygym.analysis.lineage.lineage import lineage
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.rows import Edit, columns
from evopolicygym.viewer.documents.document import document

OF_THE_SUBMISSION = frozenset({"run_id", "checkpoint", "episodes", "spent", "train_mean", "validation_mean"})
"""Columns that the rows of submissions have too."""


def edits_bundle(record: RunRecord) -> dict[str, Any]:
    """Return each submission's edit, by the names of its columns."""
    names = [column.name for column in columns(Edit) if column.name not in OF_THE_SUBMISSION]
    return {"edits": [document(edit, *names) for edit in lineage(record)]}
