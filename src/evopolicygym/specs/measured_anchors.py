"""Anchors that were measured on this machine, found by the fingerprint of their environment.

``evopolicygym anchors`` keeps what it measures in the user's state directory. A run that was opened before has no
anchors in its record; tables find them here, or in the spec that ships today with the same fingerprint.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.directories import state_directory
from evopolicygym.core.errors import UsageError
from evopolicygym.core.task import Anchor, EnvironmentSpec
from evopolicygym.specs import catalog

MEASURED_WITH = {
    "box2d": "2.3.10", "gymnasium": "1.3.0", "gymnasium-robotics": "1.4.2", "highway-env": "1.11", "minigrid": "3.1.0",
    "mujoco": "3.9.0", "numpy": "2.4.6", "pandas": "3.1.1", "pygame": "2.6.1",
}  # fmt: skip
"""Versions behind the anchors of the specs that ship, and behind the shipped records; those of ``constraints.txt``."""


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
    anchors = _of_shipped(spec.name, fingerprint) or _kept(fingerprint)
    return replace(spec, **_known(anchors)) if anchors else spec


def other_simulators(name: str, fingerprint: str, versions: Mapping[str, str]) -> tuple[str, ...]:
    """Describe the versions of a run that aren't those behind the shipped numbers of its task.

    Empty if the task doesn't ship as a spec; tasks of packs have versions of their own.
    """
    if fingerprint not in catalog.shipped_fingerprints(name):
        return ()
    pairs = {package: (measured, versions.get(package, measured)) for package, measured in MEASURED_WITH.items()}
    return tuple(f"{package} {here}, not {measured}" for package, (measured, here) in pairs.items() if here != measured)


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
