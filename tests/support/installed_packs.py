"""Packs that are installed for tests: ``EVOPOLICYGYM_TEST_PACKS`` names the data directory that they lie in."""

import os

import pytest

from evopolicygym.core.errors import UsageError
from evopolicygym.packs.installation import InstalledPack, needed
from evopolicygym.specs import pack_catalog

VARIABLE = "EVOPOLICYGYM_TEST_PACKS"


def installed_packs(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[InstalledPack]:
    """Have packs found where they are installed for tests, and return them; skip the test where one isn't."""
    place = os.environ.get(VARIABLE)
    if not place:
        pytest.skip(f"{VARIABLE} names no data directory with {' and '.join(names)}")
    monkeypatch.setenv("XDG_DATA_HOME", place)
    try:
        return [needed(pack_catalog.load(name)) for name in names]
    except UsageError as error:
        pytest.skip(f"{VARIABLE}={place}: {error}")
