"""Where each submission of a run came from, which kind of edit it was, and what came of it.

A document of its own, as parsing many checkpoints takes a moment.
"""

from typing import Any

from evopolicygym.analysis.lineage.gain import Gain
from evopolicygym.analysis.lineage.lineage import Descent, lineage
from evopolicygym.records.reader import RunRecord
from evopolicygym.viewer.documents.reading import shown


def edits_bundle(record: RunRecord) -> dict[str, Any]:
    """Return each submission's edit."""
    return {"edits": [_edit(one) for one in lineage(record)]}


def _edit(one: Descent) -> dict[str, Any]:
    return {
        "parent": one.parent,
        "declared": one.is_declared,
        "edit": one.edit.value if one.edit else None,
        "changed_lines": one.changed_lines,
        "topology": one.topology,
        "mended_by": one.mended_by,
        "acts_by_episode": one.acts_by_episode,
        "gain": _gain(one.gain),
        "hit": one.is_hit,
        "hypothesis": shown(one.hypothesis),
        "settings": {shown(str(name)): shown(str(value)) for name, value in one.settings.items()},
    }


def _gain(gain: Gain | None) -> dict[str, Any] | None:
    if gain is None:
        return None
    ends = [gain.interval.low, gain.interval.high] if gain.interval else None
    return {"mean": gain.mean, "interval": ends, "cases": gain.cases}
