"""Compares cluster nodes with the driver: code, versions, spaces, sandbox, and installed packs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evopolicygym.core.errors import NodeError
from evopolicygym.core.rollout import ExecutorInfo, other_code
from evopolicygym.packs.installation import installed, packs_directory
from evopolicygym.rollout.arithmetic import PROCESSOR

HOW_CHOSEN = ("chosen", "not ")
"""Prefixes of findings on the choice of a level, which are not compared."""


def incompatibilities(ours: ExecutorInfo, theirs: ExecutorInfo) -> list[str]:
    """Return how a node differs from the driver, in words; an empty list if they are compatible."""
    found = list(_unequal("", ours.versions, theirs.versions))
    code = other_code(ours.simulator_code, theirs.simulator_code)
    found += [f"code of {item.module}: {item.there} instead of {item.here}" for item in code]
    if ours.isolation != theirs.isolation:
        found.append(f"isolation level {theirs.isolation} instead of {ours.isolation}")
    found += _unequal("sandbox: ", _enforced(ours), _enforced(theirs))
    imports = [
        dict(allowed_import.split("==", 1) for allowed_import in place.allowed_imports) for place in (ours, theirs)
    ]
    found += _unequal("a policy's ", *imports)
    if (ours.observation_schema, ours.action_schema) != (theirs.observation_schema, theirs.action_schema):
        found.append("other spaces of the environment")
    return found


def _enforced(grounds: ExecutorInfo) -> dict[str, str]:
    return {name: text for name, text in grounds.findings.items() if not name.startswith((*HOW_CHOSEN, PROCESSOR))}


def _unequal(before: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            yield f"{before}{name} {theirs.get(name, 'absent')} instead of {ours.get(name, 'absent')}"


@dataclass(frozen=True, slots=True)
class PackState:
    """A pack on one machine."""

    directory: str
    """Directory of packs."""
    versions: Mapping[str, str] | None
    """Versions of Python and all distributions of the pack; None where it isn't installed."""


def pack_state(name: str) -> PackState:
    """Return the state of a pack with a separate Python on this machine."""
    found = installed(name)
    return PackState(str(packs_directory()), {**found.versions, "python": found.python} if found else None)


def check_nodes(name: str, packages: Iterable[str], ours: PackState, nodes: Mapping[str, PackState]) -> None:
    """Raise ``NodeError`` with all nodes that lack a pack or have other versions of it than the driver.

    Versions of Python, gymnasium, numpy and ``packages`` are compared.
    """
    wrong = [
        f"{node} {why}" for node, there in nodes.items() if (why := _why_unlike(packages, ours.versions or {}, there))
    ]
    if wrong:
        raise NodeError(
            f"{len(wrong)} of {len(nodes)} nodes can't play the pack {name!r} as the driver does: {'; '.join(wrong)}. "
            f"On such a node, evopolicygym packs install {name} installs it; nodes that share a file system may share "
            f"one data directory by XDG_DATA_HOME."
        )


def _why_unlike(packages: Iterable[str], ours: Mapping[str, str], there: PackState) -> str:
    if there.versions is None:
        return f"lacks it (in {there.directory})"
    others = "; ".join(_others(packages, ours, there.versions))
    return f"has other versions of it: {others}" if others else ""


def _others(packages: Iterable[str], ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    for package in dict.fromkeys(("python", "gymnasium", "numpy", *packages)):
        if ours.get(package) != theirs.get(package):
            yield f"{package} {theirs.get(package, 'absent')} instead of {ours.get(package, 'absent')}"
