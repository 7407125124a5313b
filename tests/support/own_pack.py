"""A pack of a test's own, installed without an index: its Python sees what ours sees, and one module more."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from evopolicygym.packs.installation import InstalledPack, packs_directory, write_document
from evopolicygym.specs import pack_catalog

NAME = "faraway"
IDS = ("Far-v0", "Blind-v0", "Littering-v0", "Forgetful-v0", "Calling-v0", "Wide-v0")
FILE = f"""
title = "Simulators that are far away"
family = "tests"
licence = "the tests' own"
requirements = ["gymnasium=={version("gymnasium")}"]
imports = ["far_away"]
packages = ["gymnasium"]
size_mb = 1

[[tasks]]
ids = [{", ".join(f'"{one}"' for one in IDS)}]
kind = "tuning"

[texts."Wide-v0"]
objective = "Look at what is too wide."
"""


def known(monkeypatch: pytest.MonkeyPatch, text: str = FILE, name: str = NAME) -> None:
    """Have the catalog know one more pack."""
    pack = pack_catalog.decode(text, name)
    names, load = [*pack_catalog.names(), name], pack_catalog.load
    monkeypatch.setattr(pack_catalog, "names", lambda: names)
    monkeypatch.setattr(pack_catalog, "load", lambda asked: pack if asked == name else load(asked))


def lay(monkeypatch: pytest.MonkeyPatch, text: str = FILE, name: str = NAME) -> InstalledPack:
    """Install the pack and have the catalog know it; return it."""
    known(monkeypatch, text, name)
    return lay_python(text, name)


def lay_python(text: str = FILE, name: str = NAME) -> InstalledPack:
    """Install the pack, whose file the catalog need not know; return it."""
    directory = packs_directory() / name
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory / "python")], check=True)
    (library,) = (directory / "python" / "lib").glob("python*/site-packages")
    places = [str(Path(np.__file__).parents[1]), str(Path(__file__).with_name("far_away"))]
    (library / "places.pth").write_text("\n".join(places), encoding="utf-8")
    requirements = pack_catalog.decode(text, name).requirements
    pack = InstalledPack(directory, requirements, sys.version.split()[0], {"far-away": "1"}, 1)
    write_document(pack)
    return pack
