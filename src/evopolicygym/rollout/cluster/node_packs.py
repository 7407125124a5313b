"""What of a pack lies on each node of a cluster, held against the driver's; a node looks in its own data directory."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from evopolicygym.core.errors import NodeError
from evopolicygym.packs.installation import installed, packs_directory


@dataclass(frozen=True, slots=True)
class PackHere:
    """A pack as it lies on one machine."""

    directory: str
    """Where packs are looked for there."""
    versions: Mapping[str, str] | None
    """Of Python and all distributions in the pack's own environment; None where the pack isn't installed."""


def pack_here(name: str) -> PackHere:
    """Return what lies on this machine of a pack that has a Python of its own."""
    found = installed(name)
    return PackHere(str(packs_directory()), {**found.versions, "python": found.python} if found else None)


def check_nodes(name: str, packages: Iterable[str], ours: PackHere, nodes: Mapping[str, PackHere]) -> None:
    """Raise ``NodeError`` with every node, by its name, that lacks a pack or has other versions than we do.

    Compared are Python, gymnasium, numpy, and the ``packages`` that a run records.
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


def _why_unlike(packages: Iterable[str], ours: Mapping[str, str], there: PackHere) -> str:
    if there.versions is None:
        return f"lacks it (in {there.directory})"
    others = "; ".join(_others(packages, ours, there.versions))
    return f"has other versions of it: {others}" if others else ""


def _others(packages: Iterable[str], ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    for one in dict.fromkeys(("python", "gymnasium", "numpy", *packages)):
        if ours.get(one) != theirs.get(one):
            yield f"{one} {theirs.get(one, 'absent')} instead of {ours.get(one, 'absent')}"
