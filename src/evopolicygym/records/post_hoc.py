"""``post_hoc.json``: held-out returns of checkpoints that were played after a run was scored, outside of its score.

::

    {"schema_version": 3, "checkpoints": {"<name>": {"returns": [1.0, 2.0], "failures": {"1": FAILURE}}}}

Returns are in the split's order, with an entry for each of the run's held-out cases. ``failures`` has, by the case's
position in that order, the ``reason``, ``step`` and ``message`` of each episode in which the policy failed; from that
step on its return is the anchor's. After the end of the run, the event log has the hash of each checkpoint's entry.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from evopolicygym.core import regular_file
from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import SCHEMA
from evopolicygym.core.rollout import Failure, FailureReason
from evopolicygym.core.strict_json import dumps
from evopolicygym.records import atomic
from evopolicygym.records.journal import check_schema
from evopolicygym.records.paths import RunPaths

MAX_BYTES = 64 << 20
"""Bytes of a ``post_hoc.json``: a return takes about 20, so a thousand checkpoints on all held-out cases take less."""


@dataclass(frozen=True, slots=True)
class PostHoc:
    """A checkpoint's episodes on the held-out cases."""

    returns: tuple[float, ...]
    failures: Mapping[int, Failure]
    """By the case's position, for cases in which the policy failed."""


class _Failure(BaseModel, extra="forbid"):
    reason: FailureReason
    step: int
    message: str


class _Checkpoint(BaseModel, extra="forbid"):
    returns: list[float]
    failures: dict[int, _Failure]


class _Document(BaseModel, extra="forbid"):
    schema_version: int
    checkpoints: dict[str, _Checkpoint]


def write_post_hoc(paths: RunPaths, results: Mapping[str, PostHoc]) -> None:
    """Write the results of checkpoints by their names, and replace an earlier file."""
    checkpoints = {name: _encode(result) for name, result in results.items()}
    document = {"schema_version": SCHEMA, "checkpoints": checkpoints}
    atomic.write_text(paths.post_hoc, dumps(document, indent=2) + "\n")


def post_hoc_sha256(result: PostHoc) -> str:
    """Return the SHA-256 of a checkpoint's entry, in hexadecimal."""
    return hashlib.sha256(b"evopolicygym post hoc 1\n" + dumps(_encode(result)).encode("utf-8", "replace")).hexdigest()


def _encode(result: PostHoc) -> dict[str, object]:
    failures = {
        str(case): {"reason": failure.reason.value, "step": failure.step, "message": failure.message}
        for case, failure in sorted(result.failures.items())
    }
    return {"returns": result.returns, "failures": failures}


def read_post_hoc(paths: RunPaths) -> dict[str, PostHoc] | None:
    """Return the results of checkpoints by their names; None if nothing was played after the score.

    Raises ``RecordError`` if the file is damaged or has another schema.
    """
    try:
        text = regular_file.read(paths.post_hoc, MAX_BYTES)
    except FileNotFoundError:
        return None
    try:
        value = json.loads(text)
        document = decoder(_Document).value(check_schema(value) if isinstance(value, dict) else value)
    except (Undecodable, RecordError) as error:
        raise RecordError(f"{paths.post_hoc} can't be read: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{paths.post_hoc} can't be read as JSON: {error}.") from error
    return {name: _decode(entry) for name, entry in document.checkpoints.items()}


def _decode(entry: _Checkpoint) -> PostHoc:
    failures = {case: Failure(item.reason, item.message, item.step) for case, item in entry.failures.items()}
    return PostHoc(tuple(entry.returns), failures)
