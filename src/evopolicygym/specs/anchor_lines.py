"""Formats anchors as TOML lines of a spec or a pack."""

import json
from collections.abc import Mapping

from evopolicygym.core.task import Anchor


def anchor_line(key: str, anchor: Anchor) -> str:
    """Return an anchor's line: six digits of its mean, three of its standard error, four of its success rate."""
    rate = "" if anchor.success_rate is None else f", success_rate = {anchor.success_rate:.4g}"
    return (
        f"{key} = {{ mean = {anchor.mean:.6g}, standard_error = {anchor.standard_error:.3g}, "
        f"episodes = {anchor.episodes}{rate} }}\n"
    )


def spec_lines(anchors: Mapping[str, Anchor], degenerate_policy: str = "") -> str:
    """Return the anchors' lines of a spec, to be placed before its tables."""
    policy = f"degenerate_policy = {json.dumps(degenerate_policy)}\n" if degenerate_policy else ""
    return "".join(anchor_line(f"{kind}_anchor", anchor) for kind, anchor in anchors.items()) + policy


def pack_lines(name: str, max_steps: int, anchors: Mapping[str, Anchor], degenerate_policy: str = "") -> str:
    """Return the anchors' table of a pack's task."""
    policy = f"degenerate_policy = {json.dumps(degenerate_policy)}\n" if degenerate_policy else ""
    lines = "".join(anchor_line(kind, anchor) for kind, anchor in anchors.items())
    return f"[anchors.{json.dumps(name)}]\nmax_steps = {max_steps}\n{lines}{policy}"
