"""A model's server that is down is said with its address, while it is tried again and in the end."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from evopolicygym.agents.base import warnings_passed_on
from evopolicygym.agents.kit.neutral_harness import provider
from evopolicygym.agents.kit.neutral_harness.wires import CONVERSATIONS
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.ledger import Ledger, ModelLog
from evopolicygym.model_proxy.upstream import ModelUpstream


@pytest.fixture
def nobody() -> Iterator[str]:
    """Return an address at which nobody answers: the port is taken, and not listened on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_each_retry_is_said_with_the_address(nobody: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every attempt but the last announces the next one; the error that is left names the address too."""
    monkeypatch.setattr(provider, "TRIES", 3)
    monkeypatch.setattr(provider, "FIRST_PAUSE_S", 0.0)
    upstream = ModelUpstream(nobody, wire=ApiFormat.CHAT)
    asked = provider.Provider(upstream, "m", Ledger(upstream), ModelLog(tmp_path / "model.jsonl"))
    notes: list[str] = []
    with warnings_passed_on(notes.append), pytest.raises(provider.ModelFailed, match=nobody):
        asked.ask(CONVERSATIONS[ApiFormat.CHAT](""), lambda _seconds: None)

    assert [nobody in note for note in notes] == [True, True]
    assert ["attempt 2 of 3" in notes[0], "attempt 3 of 3" in notes[1]] == [True, True]


def test_warnings_are_passed_on_only_meanwhile() -> None:
    """Nobody is told of what comes after, and who fails to listen ends nothing."""
    notes: list[str] = []
    with warnings_passed_on(notes.append):
        provider.LOG.warning("heard")
    provider.LOG.warning("unheard")

    assert notes == ["heard"]
