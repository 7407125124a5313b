"""Files that a sandbox sees as files of its own: an overlay for each, and copies where an overlay can't be.

A file that is mounted into two sandboxes is one file to the kernel: locks, leases and watches on it, its number, and
which of its pages are in memory are the same for both. In an overlay a file of the machine is another file, but for its
pages, which ``resident.py`` keeps in memory. What a sandbox must not see of a directory is hidden by a layer above it.
"""

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from itertools import pairwise
from pathlib import Path

from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.confinement.bwrap import bwrap
from evopolicygym.sandbox.confinement.host_user import namespaces, user_of
from evopolicygym.sandbox.confinement.layers import Layers, best_place, holds_devices
from evopolicygym.sandbox.confinement.resident import open_unnoted

DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}


class Overlays:
    """Makes overlays for one sandbox, whose layers live as long as it."""

    def __init__(self, layers: Layers) -> None:
        """Have layers made in a directory of theirs."""
        self._new = layers.new

    def words(
        self,
        source: str,
        target: str,
        hidden: Mapping[str, Collection[str]] | None = None,
        places: Collection[str] = (),
        below: Collection[str] = (),
    ) -> Iterator[str]:
        """Yield the words that show a directory of the machine in a sandbox, and what others ``below`` hold besides.

        ``hidden`` are names that are left out, by the directory that they lie in, relative to the source; ``places``
        are directories that are shown empty, for something to be mounted there.
        """
        layer = self._new()
        for directory, names in (hidden or {}).items():
            place = layer / directory
            _make(layer, place)
            for name in names:
                os.mknod(place / name, stat.S_IFCHR, 0)
        for name in places:
            _make(layer, layer / name)
        for lower in (*below, source, str(layer)):
            yield from ("--overlay-src", lower)
        yield from ("--ro-overlay", target)

    def copied(self, source: str, target: str) -> Iterator[str]:
        """Yield the words that show a copy of a file in a sandbox."""
        copy = self._new() / "file"
        _copy_unnoted(source, str(copy))
        yield from ("--ro-bind", str(copy), target)

    def shown(self, source: str, target: str) -> Iterator[str]:
        """Yield the words that show a file or a directory of the machine, or a copy where it can't be an overlay."""
        if not Path(source).is_dir():
            return self.copied(source, target)
        if not why_shared(source):
            return self.words(source, target)
        copy = self._new() / "directory"
        shutil.copytree(source, copy, copy_function=_copy_unnoted)
        return iter(("--ro-bind", str(copy), target))

    def devices(self, names: Collection[str]) -> Iterator[str]:
        """Yield the words for device files: the sandbox's own where root can make them, else the machine's."""
        place = self._new() if own_devices() else Path("/dev")
        for name in names:
            if own_devices():
                os.mknod(place / name, stat.S_IFCHR, os.makedev(*DEVICES[name]))
                (place / name).chmod(0o666)
            yield from ("--dev-bind", f"{place}/{name}", f"/dev/{name}")


def own_devices() -> bool:
    """Return whether sandboxes have device files of their own."""
    return holds_devices(best_place())


def files_finding(pages: str, shared: Iterable[str]) -> str:
    """Return in words whose files a sandbox sees, how their pages are kept, and which are the machine's after all."""
    if why := why_shared():
        return f"the machine's, with what else is kept of them: {why}"
    named = ", ".join(shared)
    return f"an overlay of each sandbox's own, {pages}{'; of the machine: ' * bool(named)}{named}"


def bound_in(words: Sequence[str], own: Collection[Path]) -> list[str]:
    """Return what the words for bwrap show of this machine as it is, but for what lies in directories of its own."""
    bound = (source for word, source in pairwise(words) if word in {"--ro-bind", "--dev-bind"})
    return [source for source in bound if not any(Path(source).is_relative_to(place) for place in own)]


def why_shared(source: str = "/usr/lib") -> str:
    """Try whether a sandbox can have an overlay of a directory here; return why not, nothing where it can."""
    return _why_shared(Path(source).stat().st_dev, source)


@cache
def _why_shared(device: int, source: str) -> str:  # noqa: ARG001 - what is true of one directory is of all its device's
    with tempfile.TemporaryDirectory(prefix="evopolicygym-overlay-") as place:
        Path(place).chmod(0o711)
        try:
            with closing(Layers()) as layers:
                tried = _tried_overlay(Path(place), Overlays(layers), source)
        except (OSError, SandboxError) as error:
            return f"no layer can be made: {error}"
    return f"no overlay can be mounted: {tried.stderr.strip()[:200]}" if tried.returncode else ""


def _tried_overlay(place: Path, overlays: Overlays, source: str) -> "subprocess.CompletedProcess[str]":
    words = overlays.words(source, "/tried", {".": ["hidden"]})
    shown = [word for root in ("/usr", "/lib", "/lib64", "/bin") for word in ("--ro-bind-try", root, root)]
    with namespaces(user_of(place)) as (kinds, needed):
        line = [bwrap(), *kinds, *shown, *words, "--", "/bin/true"]
        return subprocess.run(line, capture_output=True, check=False, text=True, env={}, pass_fds=needed)


def _copy_unnoted(source: str, target: str) -> None:
    """Copy a file so that its disk doesn't note when it was read."""
    with open(source, "rb", opener=open_unnoted) as read, open(target, "wb") as written:  # noqa: PTH123 - the opener
        shutil.copyfileobj(read, written)
    Path(target).chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def _make(layer: Path, directory: Path) -> None:
    """Make a directory in a layer, with those above it, for anybody to enter."""
    for one in (*reversed(directory.relative_to(layer).parents), directory.relative_to(layer)):
        (layer / one).mkdir(exist_ok=True)
        (layer / one).chmod(0o755)
