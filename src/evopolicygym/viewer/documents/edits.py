"""The edits of a run, as rows: each submission's parent, the kind of edit, and its result.

A document of its own, as parsing many checkpoints takes a moment.
"""

from typing import Any

from evopolicygym.analysis.lineage.lineage import lineage
from evopolicygym.records.reader import RunRecord
from evopolicygym.viewer.documents.reading import shown

OF_THE_RUN = ("run_id", "checkpoint", "episodes")
"""Columns that the document of the run has in a form of its own."""


def edits_bundle(record: RunRecord) -> dict[str, Any]:
    """Return each submission's edit, by the names of its columns."""
    rows = [{name: value for name, value in dict(edit).items() if name not in OF_THE_RUN} for edit in lineage(record)]
    for row in rows:
        row["hypothesis"] = shown(row["hypothesis"] or "")
        row["settings"] = {shown(str(name)): shown(str(value)) for name, value in row["settings"].items()}
    return {"edits": rows}
