"""Descriptions that are kept: a simulator is asked once what it is, as long as its versions stay the same."""

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import gettempdir

from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.places import data_directory
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.description import Description, describe
from evopolicygym.environments.pack_walls import pack_walls
from evopolicygym.environments.versions import versions
from evopolicygym.packs.installation import InstalledPack
from evopolicygym.version import __version__


def kept_description(spec: EnvironmentSpec, own: InstalledPack | None) -> Description:
    """Return what the simulator of a spec says of itself, as it was kept, or as it says now.

    ``own`` is the Python environment of the spec's pack, where it has one. Raises as ``describe`` does.
    """
    place = _place(spec, own)
    with suppress(OSError, Undecodable):
        return decoder(Description).json(place.read_bytes())
    said = describe(spec, _walls() if own else ())
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(asdict(said)), encoding="utf-8")
        partial.rename(place)
    return said


def _walls() -> tuple[str, ...]:
    """Return the beginning of a command line that starts a pack's simulator within walls, as far as there are any."""
    words = pack_walls(Path(gettempdir())).words
    return (words[0], "--die-with-parent", *words[1:]) if words else ()


def _place(spec: EnvironmentSpec, own: InstalledPack | None) -> Path:
    depends = dict(own.versions) if own else versions(spec)
    identity = (__version__, spec.id, spec.imports, spec.arguments, depends)
    name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    directory = own.descriptions if own else data_directory() / "descriptions"
    return directory / f"{spec.name}-{name}.json"
