"""``post_hoc.json``: what checkpoints made of the held-out cases after a run was scored, outside of its score.

::

    {"schema_version": 3, "checkpoints": {"<name>": {"returns": [1.0, 2.0], "failures": {"1": FAILURE}}}}

Returns stand in the split's order, one for each of the run's held-out cases. ``failures`` holds, by the case's place in
that order, ``reason``, ``step`` and ``message`` of each episode in which the policy failed, so that the return is the
anchor's from there on. The journal has a line with the hash of each checkpoint's entry, after the line that ends the
run.
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
from evopolicygym.records import durable
from evopolicygym.records.documents import migrate
from evopolicygym.records.jsontext import dumps
from evopolicygym.records.paths import RunPaths

MOST_BYTES = 64 << 20
"""Of a ``post_hoc.json``: some 20 a return, so a thousand checkpoints on all held-out cases take less."""


@dataclass(frozen=True, slots=True)
class PostHoc:
    """What one checkpoint made of the held-out cases."""

    returns: tuple[float, ...]
    failures: Mapping[int, Failure]
    """By the case's place, where the policy failed."""


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


def write_post_hoc(paths: RunPaths, known: Mapping[str, PostHoc]) -> None:
    """Write what is known of each checkpoint, by its name; whatever was written before is replaced."""
    checkpoints = {name: _entry(one) for name, one in known.items()}
    document = {"schema_version": SCHEMA, "checkpoints": checkpoints}
    durable.write_text(paths.post_hoc, dumps(document, indent=2) + "\n")


def post_hoc_sha256(one: PostHoc) -> str:
    """Return the SHA-256 over what is written of a checkpoint, in hexadecimal."""
    return hashlib.sha256(b"evopolicygym post hoc 1\n" + dumps(_entry(one)).encode("utf-8", "replace")).hexdigest()


def _entry(one: PostHoc) -> dict[str, object]:
    return {"returns": one.returns, "failures": _failures(one)}


def _failures(one: PostHoc) -> dict[str, dict[str, str | int]]:
    return {
        str(case): {"reason": failure.reason.value, "step": failure.step, "message": failure.message}
        for case, failure in sorted(one.failures.items())
    }


def read_post_hoc(paths: RunPaths) -> dict[str, PostHoc] | None:
    """Return what is known of each checkpoint, by its name; None where nothing was played post hoc.

    Raises ``RecordError`` where the file is damaged or of another version.
    """
    try:
        text = regular_file.read(paths.post_hoc, MOST_BYTES)
    except FileNotFoundError:
        return None
    try:
        found = json.loads(text)
        document = decoder(_Document).value(migrate(found) if isinstance(found, dict) else found)
    except (Undecodable, RecordError) as error:
        raise RecordError(f"{paths.post_hoc} can't be read: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{paths.post_hoc} can't be read as JSON: {error}.") from error
    return {name: _known(one) for name, one in document.checkpoints.items()}


def _known(found: _Checkpoint) -> PostHoc:
    failures = {case: Failure(one.reason, one.message, one.step) for case, one in found.failures.items()}
    return PostHoc(tuple(found.returns), failures)
