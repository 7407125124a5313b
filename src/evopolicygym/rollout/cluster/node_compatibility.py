"""Whether episodes may be played at either of two places: all that results depend on is equal."""

from collections.abc import Iterator, Mapping
from typing import Any

from evopolicygym.core.rollout import Grounds, other_code
from evopolicygym.rollout.arithmetic import PROCESSOR

HOW_CHOSEN = ("chosen", "not ")
"""How findings begin that tell why a level was chosen, not what it can enforce."""


def incompatibilities(ours: Grounds, theirs: Grounds) -> list[str]:
    """Return in words how a place differs from ours; nothing where both are compatible."""
    found = list(_unequal("", ours.versions, theirs.versions))
    code = other_code(ours.simulator_code, theirs.simulator_code)
    found += [f"code of {one.module}: {one.there} instead of {one.here}" for one in code]
    if ours.isolation != theirs.isolation:
        found.append(f"isolation level {theirs.isolation} instead of {ours.isolation}")
    found += _unequal("sandbox: ", _enforced(ours), _enforced(theirs))
    imports = [dict(one.split("==", 1) for one in place.allowed_imports) for place in (ours, theirs)]
    found += _unequal("a policy's ", *imports)
    if (ours.observation_schema, ours.action_schema) != (theirs.observation_schema, theirs.action_schema):
        found.append("other spaces of the environment")
    return found


def _enforced(grounds: Grounds) -> dict[str, str]:
    return {name: text for name, text in grounds.findings.items() if not name.startswith((*HOW_CHOSEN, PROCESSOR))}


def _unequal(before: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            yield f"{before}{name} {theirs.get(name, 'absent')} instead of {ours.get(name, 'absent')}"
