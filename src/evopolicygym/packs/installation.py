"""Installed packs: their directories, their contents, and the Python that plays an environment.

A pack with a separate Python is in ``packs/NAME`` of the user's data directory: ``python/`` is a virtual environment,
and ``installed.json`` lists its contents. It is never changed, only reinstalled or removed. It doesn't contain this
package, whose modules are loaded from the running program's path, so that both always have the same version.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.directories import data_directory
from evopolicygym.core.errors import UsageError
from evopolicygym.core.pack import Pack
from evopolicygym.core.text import shell_word

DOCUMENT = "installed.json"
PYTHON = Path("python", "bin", "python")
DESCRIPTIONS = "descriptions"


@dataclass(frozen=True, slots=True)
class InstalledPack:
    """A complete Python environment of a pack."""

    directory: Path
    requirements: tuple[str, ...]
    """Requirements at installation, those of this package included."""
    python: str
    """The version of its Python."""
    versions: Mapping[str, str]
    """Versions of all its distributions, by name."""
    size_mb: int

    @property
    def interpreter(self) -> Path:
        """Path of its Python executable."""
        return self.directory / PYTHON

    @property
    def base(self) -> Path:
        """Directory of the Python behind its virtual environment."""
        return self.interpreter.resolve().parents[1]

    @property
    def descriptions(self) -> Path:
        """Directory of its simulators' cached descriptions."""
        return self.directory / DESCRIPTIONS


@dataclass(frozen=True, slots=True)
class _InstalledDocument:
    requirements: tuple[str, ...]
    python: str
    versions: Mapping[str, str]
    size_mb: int


def packs_directory() -> Path:
    """Return the directory of all packs, which may not exist yet."""
    return data_directory() / "packs"


def installed(name: str) -> InstalledPack | None:
    """Return a pack's installed Python environment; None where it is missing or unreadable."""
    directory = packs_directory() / name
    try:
        document = (directory / DOCUMENT).read_bytes()
        pack = decoder(_InstalledDocument).json(document)
    except (OSError, Undecodable):
        return None
    runs = os.access(directory / PYTHON, os.X_OK)
    return InstalledPack(directory, pack.requirements, pack.python, pack.versions, pack.size_mb) if runs else None


def write_document(pack: InstalledPack) -> None:
    """Write ``installed.json`` of an environment."""
    document = {name: value for name, value in asdict(pack).items() if name != "directory"}
    (pack.directory / DOCUMENT).write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def needed(pack: Pack) -> InstalledPack:
    """Return a pack's own Python environment; raise ``UsageError`` if it or a requirement is missing."""
    environment = installed(pack.name)
    if environment is None:
        raise UsageError(
            f"The pack {pack.name!r} is not installed: evopolicygym packs install {shell_word(pack.asked_by)} (about "
            f"{pack.size_mb} MB)."
        )
    if missing := sorted(set(pack.requirements) - set(environment.requirements)):
        raise UsageError(
            f"The pack {pack.name!r} lacks requirements on which scores depend: {', '.join(missing)}. Reinstall it: "
            f"evopolicygym packs install {shell_word(pack.asked_by)}"
        )
    return environment


PACKAGE = Path(__file__).resolve().parents[1]
NAME = PACKAGE.name
BEGIN = """
import importlib.util, runpy, sys
place, name, module = sys.argv[1:4]
found = importlib.util.spec_from_file_location(name, place + "/__init__.py", submodule_search_locations=[place])
package = importlib.util.module_from_spec(found)
sys.modules[name] = package
found.loader.exec_module(package)
package.found_by_place = True
del sys.argv[1:4]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
"""Program that imports this package from its path, then runs one of its modules as ``python -m`` does."""


def command(pack: str, module: str, *words: str) -> list[str]:
    """Return the command line that runs a module of this package on a pack's Python; with "", on the current Python.

    Raises ``UsageError`` if the pack isn't installed.
    """
    if not pack:
        is_ours = not getattr(sys.modules[NAME], "found_by_place", False)
        launcher = ["-m"] if is_ours else ["-c", BEGIN, str(PACKAGE), NAME]
        return [interpreter(pack), "-P", *launcher, module, *words]
    return foreign_command(Path(interpreter(pack)), module, *words)


def interpreter(pack: str) -> str:
    """Return the executable of a pack's Python; with "", the current one. Raises ``UsageError`` if it is missing."""
    if not pack:
        return sys.executable
    environment = installed(pack)
    if environment is None:
        raise UsageError(
            f"The pack {pack!r} is not installed. Install it: evopolicygym packs install {shell_word(pack)}"
        )
    return str(environment.interpreter)


def foreign_command(python: Path, module: str, *words: str) -> list[str]:
    """Return the command line that runs a module of this package on a Python that doesn't have it installed."""
    return [str(python), "-P", "-c", BEGIN, str(PACKAGE), NAME, module, *words]
