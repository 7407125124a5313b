"""A model's server that is down is said with its address, while it is tried again and in the end."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from evopolicygym.agents.base import forward_warnings
from evopolicygym.agents.kit.model_requests import ModelRequests
from evopolicygym.agents.kit.neutral_harness import model_client
from evopolicygym.core.agent import Workspace
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelUpstream


@pytest.fixture
def nobody() -> Iterator[str]:
    """Return an address at which nobody answers: the port is taken, and not listened on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_each_retry_is_said_with_the_address(nobody: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every attempt but the last announces the next one; the error that is left names the address too."""
    monkeypatch.setattr(model_client, "TRIES", 3)
    monkeypatch.setattr(model_client, "FIRST_PAUSE_S", 0.0)
    upstream = ModelUpstream(nobody, wire=ApiFormat.CHAT)
    notes: list[str] = []
    with (
        model_client.ModelClient(
            upstream,
            ModelRequests("m", ApiFormat.CHAT, {}, {}, caches=True),
            Workspace(tmp_path, tmp_path / "transcript.log", 0, "none"),
        ) as model,
        forward_warnings(notes.append),
        pytest.raises(model_client.ModelFailed, match=nobody),
    ):
        model.ask(model.conversation(""), lambda _seconds: None)

    assert nobody in notes[0]
    assert len({*notes}) == len(notes)
    assert [re.findall(r"Attempt \d of \d", note) for note in notes] == [["Attempt 2 of 3"], ["Attempt 3 of 3"]]


def test_warnings_are_passed_on_only_meanwhile() -> None:
    """Nobody is told of what comes after, and who fails to listen ends nothing."""
    notes: list[str] = []
    with forward_warnings(notes.append):
        model_client.LOG.warning("heard")
    model_client.LOG.warning("unheard")

    assert notes == ["heard"]
