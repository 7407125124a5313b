"""The Python that plays an environment: ours, or that of its pack, which runs the same code of ours.

A pack's Python environment does not hold this package: its modules are found where the program that runs has them, so
that both are always of one version.
"""

import sys
from pathlib import Path

from evopolicygym.core.errors import UsageError
from evopolicygym.packs.installation import installed

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
"""Finds this package by its place, then runs a module of it as ``python -m`` does."""


def command(pack: str, module: str, *words: str) -> list[str]:
    """Return the command line by which a module of ours runs where a pack's environments are; with "", on this Python.

    Raises ``UsageError`` where the pack isn't installed.
    """
    if not pack:
        is_ours = not getattr(sys.modules[NAME], "found_by_place", False)
        begun = ["-m"] if is_ours else ["-c", BEGIN, str(PACKAGE), NAME]
        return [interpreter(pack), "-P", *begun, module, *words]
    return elsewhere(Path(interpreter(pack)), module, *words)


def interpreter(pack: str) -> str:
    """Return the program of a pack's Python; with "", of this one. Raises ``UsageError`` where it isn't installed."""
    if not pack:
        return sys.executable
    found = installed(pack)
    if found is None:
        raise UsageError(
            f"The environment is one of the pack {pack!r}, which is not installed: evopolicygym packs install {pack}."
        )
    return str(found.interpreter)


def elsewhere(python: Path, module: str, *words: str) -> list[str]:
    """Return the command line by which a module of ours runs on a Python that doesn't hold this package."""
    return [str(python), "-P", "-c", BEGIN, str(PACKAGE), NAME, module, *words]
