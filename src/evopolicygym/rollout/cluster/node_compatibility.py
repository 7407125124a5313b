"""Compares cluster nodes with the driver: code, versions, spaces, sandbox, and installed packs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evopolicygym.core.errors import NodeError
from evopolicygym.core.rollout import ExecutorInfo, other_code
from evopolicygym.core.text import shell_word
from evopolicygym.packs.installation import installed, packs_directory
from evopolicygym.rollout.arithmetic import PROCESSOR

HOW_CHOSEN = ("chosen", "not ")
"""Prefixes of findings on the choice of a level, which are not compared."""


def incompatibilities(ours: ExecutorInfo, theirs: ExecutorInfo) -> list[str]:
    """Return how a node differs from the driver, in words; an empty list if they are compatible."""
    differences = list(_differences("", ours.versions, theirs.versions))
    code = other_code(ours.simulator_code, theirs.simulator_code)
    differences += [f"code of {item.module}: {item.there} instead of {item.here}" for item in code]
    if ours.isolation != theirs.isolation:
        differences.append(f"isolation level {theirs.isolation} instead of {ours.isolation}")
    differences += _differences("sandbox: ", _sandbox_findings(ours), _sandbox_findings(theirs))
    imports = [
        dict(allowed_import.split("==", 1) for allowed_import in info.allowed_imports) for info in (ours, theirs)
    ]
    differences += _differences("a policy's ", *imports)
    if (ours.observation_schema, ours.action_schema) != (theirs.observation_schema, theirs.action_schema):
        differences.append("other spaces of the environment")
    return differences


def _sandbox_findings(info: ExecutorInfo) -> dict[str, str]:
    return {name: text for name, text in info.findings.items() if not name.startswith((*HOW_CHOSEN, PROCESSOR))}


def _differences(prefix: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            yield f"{prefix}{name} {theirs.get(name, 'absent')} instead of {ours.get(name, 'absent')}"


@dataclass(frozen=True, slots=True)
class PackState:
    """A pack on one machine."""

    directory: str
    """Directory of packs."""
    versions: Mapping[str, str] | None
    """Versions of Python and all distributions of the pack; None where it isn't installed."""


def pack_state(name: str) -> PackState:
    """Return the state of a pack with a separate Python on this machine."""
    pack = installed(name)
    return PackState(str(packs_directory()), {**pack.versions, "python": pack.python} if pack else None)


def check_nodes(name: str, packages: Iterable[str], ours: PackState, nodes: Mapping[str, PackState]) -> None:
    """Raise ``NodeError`` with all nodes that lack a pack or have other versions of it than the driver.

    Versions of Python, gymnasium, numpy and ``packages`` are compared.
    """
    problems = [
        f"{node} {problem}"
        for node, state in nodes.items()
        if (problem := _pack_problem(packages, ours.versions or {}, state))
    ]
    if problems:
        raise NodeError(
            f"{len(problems)} of {len(nodes)} nodes can't play the pack {name!r} as the driver does: "
            f"{'; '.join(problems)}. Run on each of them: evopolicygym packs install {shell_word(name)}. Nodes that "
            f"share a file system can share one data directory through XDG_DATA_HOME."
        )


def _pack_problem(packages: Iterable[str], ours: Mapping[str, str], state: PackState) -> str:
    if state.versions is None:
        return f"lacks it (in {state.directory})"
    versions = "; ".join(_version_differences(packages, ours, state.versions))
    return f"has other versions of it: {versions}" if versions else ""


def _version_differences(packages: Iterable[str], ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    for package in dict.fromkeys(("python", "gymnasium", "numpy", *packages)):
        if ours.get(package) != theirs.get(package):
            yield f"{package} {theirs.get(package, 'absent')} instead of {ours.get(package, 'absent')}"
