"""Where packs lie on this machine, and what of each is installed; how it gets there is described in ``installer.py``.

A pack that has a Python of its own lies in ``packs/NAME`` of the user's data directory: ``python/`` is a virtual
environment of the Python that this program runs on, and ``installed.json`` says what is in it. It is never changed: it
is installed anew or removed.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import UsageError
from evopolicygym.core.pack import Pack
from evopolicygym.core.places import data_directory

DOCUMENT = "installed.json"
PYTHON = Path("python", "bin", "python")
DESCRIPTIONS = "descriptions"


@dataclass(frozen=True, slots=True)
class InstalledPack:
    """A pack's Python environment, whole."""

    directory: Path
    requirements: tuple[str, ...]
    """What was asked for when it was installed, ours included."""
    python: str
    """The version of its Python."""
    versions: Mapping[str, str]
    """Of all distributions in it, by name."""
    size_mb: int

    @property
    def interpreter(self) -> Path:
        """The program of its Python."""
        return self.directory / PYTHON

    @property
    def descriptions(self) -> Path:
        """The directory that keeps what its simulators say of themselves."""
        return self.directory / DESCRIPTIONS


@dataclass(frozen=True, slots=True)
class _InstalledDocument:
    requirements: tuple[str, ...]
    python: str
    versions: Mapping[str, str]
    size_mb: int


def packs_directory() -> Path:
    """Return where packs are installed; it may not be there yet."""
    return data_directory() / "packs"


def installed(name: str) -> InstalledPack | None:
    """Return what is installed of a pack's own Python environment; None where nothing is, or what can't be read."""
    directory = packs_directory() / name
    try:
        document = (directory / DOCUMENT).read_bytes()
        found = decoder(_InstalledDocument).json(document)
    except (OSError, Undecodable):
        return None
    there = os.access(directory / PYTHON, os.X_OK)
    return InstalledPack(directory, found.requirements, found.python, found.versions, found.size_mb) if there else None


def write_document(pack: InstalledPack) -> None:
    """Say in its directory what is installed."""
    said = {name: value for name, value in asdict(pack).items() if name != "directory"}
    (pack.directory / DOCUMENT).write_text(json.dumps(said, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def needed(pack: Pack) -> InstalledPack:
    """Return a pack's own Python environment; raise ``UsageError`` where it isn't installed as the pack says."""
    found = installed(pack.name)
    if found is None:
        raise UsageError(
            f"The pack {pack.name!r} is not installed: evopolicygym packs install {pack.asked_by} (about "
            f"{pack.size_mb} MB)."
        )
    if missing := sorted(set(pack.requirements) - set(found.requirements)):
        raise UsageError(
            f"The pack {pack.name!r} was installed with other versions than it names now ({', '.join(missing)}), on "
            f"which scores depend: evopolicygym packs install {pack.asked_by} installs it anew."
        )
    return found
