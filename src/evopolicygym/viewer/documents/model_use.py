"""What a run's agent asked of its model, request by request, as the model proxy logged it; never what was said."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from evopolicygym.core.agent import MODEL_LOG
from evopolicygym.records.paths import RunPaths
from evopolicygym.viewer.documents.reading import below, read_bytes

MOST_LOG = 16 << 20
"""Bytes of the log that are read."""


@dataclass(frozen=True, slots=True)
class ModelUse:
    """One request that the model answered."""

    time: str
    tokens: float
    cost: float | None
    seconds: float


def model_uses(paths: RunPaths) -> tuple[ModelUse, ...]:
    """Return all requests in the order of the log; empty where there is no such log."""
    content = read_bytes(below(paths.root, paths.logs / MODEL_LOG), MOST_LOG)
    found = []
    for line in (content or b"").splitlines():
        with suppress(ValueError, TypeError, RecursionError):
            entry = json.loads(line)
            if isinstance(entry, dict) and isinstance(entry.get("time"), str) and "input" in entry:
                tokens = _number(entry.get("input")) + _number(entry.get("output"))
                cost = entry.get("cost")
                found.append(
                    ModelUse(
                        entry["time"], tokens, None if cost is None else _number(cost), _number(entry.get("seconds"))
                    )
                )
    return tuple(found)


def uses_between(requests: Sequence[ModelUse], since: str, until: str) -> dict[str, Any] | None:
    """Return what was used after one time and up to another; None where there is no log.

    Times are ISO 8601 in UTC of one form, so they are in the order of their texts.
    """
    if not requests:
        return None
    own = [one for one in requests if since < one.time <= until]
    costs = [one.cost for one in own if one.cost is not None]
    return {
        "requests": len(own),
        "tokens": sum(one.tokens for one in own),
        "cost": sum(costs) if costs else None,
        "seconds": sum(one.seconds for one in own),
    }


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
