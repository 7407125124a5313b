"""Benchmarks as modules, for tests that look at how they count; they are on no test's own path."""

import sys
from importlib import import_module
from types import ModuleType

from places import ROOT

PLACE = str(ROOT / "benchmarks")


def load(name: str) -> ModuleType:
    """Return a benchmark's module, imported with those that it stands on."""
    sys.path.insert(0, PLACE)
    try:
        return import_module(name)
    finally:
        sys.path.remove(PLACE)
