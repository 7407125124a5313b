"""The libraries that are agents, as extras: a test that needs one is skipped where it is not installed."""

from importlib.util import find_spec

import pytest

LIBRARIES = ("openevolve", "gepa")


def needs_library(name: str) -> pytest.MarkDecorator:
    """Return the mark of a test that a library must be there for."""
    return pytest.mark.skipif(find_spec(name) is None, reason=f"{name} is not installed: pip install -e '.[{name}]'")
