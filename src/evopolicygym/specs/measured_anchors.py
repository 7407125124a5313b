"""Anchors that were measured on this machine, found by the fingerprint of their environment.

``evopolicygym anchors`` keeps what it measures in the user's state directory. A run that was opened before has no
anchors in its record; tables find them here, or in the spec that ships today with the same fingerprint.
"""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import UsageError
from evopolicygym.core.places import state_directory
from evopolicygym.core.task import Anchor, EnvironmentSpec
from evopolicygym.specs import catalog


@dataclass(frozen=True, slots=True)
class MeasuredAnchors:
    """The anchors of one environment; None for those that were not measured."""

    random_anchor: Anchor | None = None
    idle_anchor: Anchor | None = None
    reference_anchor: Anchor | None = None
    degenerate_anchor: Anchor | None = None
    degenerate_policy: str = ""


def keep(spec: EnvironmentSpec, measured: MeasuredAnchors) -> None:
    """Keep an environment's anchors, beside kinds that were measured before; raise ``OSError``."""
    known = replace(_kept(catalog.spec_sha256(spec)) or MeasuredAnchors(), **_known(measured))
    path = state_directory().with_name("anchors") / f"{catalog.spec_sha256(spec)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(asdict(known)), encoding="utf-8")
    partial.rename(path)


def with_anchors(spec: EnvironmentSpec) -> EnvironmentSpec:
    """Return a spec with the anchors that are known of it now, where it has none of its own."""
    if spec.random_anchor is not None or not spec.is_known:
        return spec
    fingerprint = catalog.spec_sha256(spec)
    found = _of_shipped(spec.name, fingerprint) or _kept(fingerprint)
    return replace(spec, **_known(found)) if found else spec


def _known(measured: MeasuredAnchors) -> dict[str, Any]:
    return {name: value for name in MeasuredAnchors.__slots__ if (value := getattr(measured, name))}


def _of_shipped(name: str, fingerprint: str) -> MeasuredAnchors | None:
    if fingerprint not in catalog.shipped_fingerprints(name):
        return None
    shipped = catalog.load(name)
    return MeasuredAnchors(**{field: getattr(shipped, field) for field in MeasuredAnchors.__slots__})


def _kept(fingerprint: str) -> MeasuredAnchors | None:
    with suppress(OSError, Undecodable, UsageError):
        path = state_directory().with_name("anchors") / f"{fingerprint}.json"
        return decoder(MeasuredAnchors).json(path.read_bytes())
    return None
