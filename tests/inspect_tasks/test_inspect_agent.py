"""The name of the agent that Inspect drives, where Inspect doesn't."""

import sys

import pytest

from evopolicygym.agents.base import make
from evopolicygym.core.agent import INSPECT, AgentConfig
from evopolicygym.core.errors import MissingExtra, UsageError


def test_nobody_else_drives_it() -> None:
    """A run of such an agent is begun and resumed by Inspect, which is said."""
    pytest.importorskip("inspect_ai", reason="inspect-ai isn't installed; the extra 'inspect' brings it")
    config = AgentConfig(INSPECT, model="openai/gpt-5.5", label="react (inspect)")
    with pytest.raises(UsageError, match=r"react \(inspect\) openai/gpt-5.5 is driven by Inspect AI: inspect eval"):
        make(config)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Inspect, the extra that brings it is named."""
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    with pytest.raises(MissingExtra, match=r"pip install 'evopolicygym\[inspect\]'"):
        make(AgentConfig(INSPECT))
