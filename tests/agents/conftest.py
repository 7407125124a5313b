"""Fixtures of tests in which an agent asks a scripted model."""

from collections.abc import Iterator

import pytest

from evopolicygym.agents.kit.scripted_model.server import ScriptedModel
from model_proxies import REAL_KEY, VARIABLE


@pytest.fixture
def real_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the real key into its variable."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """Return a model server."""
    with ScriptedModel() as server:
        yield server
