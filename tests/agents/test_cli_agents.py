"""What the command line lists of agents: what they are, what they need, and what of it is missing."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.agents.base import AGENTS
from shell import ESCAPE, Shell


def by_name(shell: Shell) -> dict[str, Any]:
    return {one["name"]: one for one in shell.json("agents")}


def test_agents(shell: Shell) -> None:
    """Every agent is listed with a line on what it is and what it needs, in full on a terminal of 80 columns."""
    told = shell.printed("agents")

    assert "…" not in told
    assert ESCAPE not in told
    assert all(f"  {name} " in told for name in AGENTS.names())
    assert "evopolicygym check agent NAME" in told


def test_agents_in_json(shell: Shell) -> None:
    """With --json all that is known of an agent is printed, under names of its own."""
    found = by_name(shell)

    assert list(found) == AGENTS.names()
    assert all(one["summary"] and one["source"] == "built-in" for one in found.values())
    assert [found[name]["model"] for name in ("tuner", "neutral", "command")] == ["none", "needed", "optional"]
    assert found["codex"]["key"]["variable"] == "OPENAI_API_KEY"
    assert "npm install" in found["codex"]["program"]["install"]
    assert found["gepa"]["extra"] == {"name": "gepa", "is_installed": find_spec("gepa") is not None}


def test_a_tool_that_is_there(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool on the PATH is found and one that isn't is marked; so are keys, of which only their presence is shown."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    before, printed = by_name(shell)["codex"], shell.printed("agents")
    (tmp_path / "codex").write_text("#!/bin/sh\n")
    (tmp_path / "codex").chmod(0o755)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    after = by_name(shell)["codex"]

    assert (before["missing"], before["program"]["path"], before["key"]["is_set"]) == (["codex"], None, False)
    assert "codex *" in printed
    assert (after["missing"], after["program"]["path"]) == ([], str(tmp_path / "codex"))
    assert (after["key"]["is_set"], "sk-of-nobody" in str(after)) == (True, False)


def test_an_extra_that_is_missing(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent whose extra is not installed is listed, and marked."""
    for module in ("httpx2", "gepa", "openevolve"):
        monkeypatch.setitem(sys.modules, module, None)
    found = by_name(shell)

    assert {name for name, one in found.items() if any("[" in word for word in one["missing"])} >= {"gepa", "neutral"}
    assert found["gepa"]["missing"] == ["evopolicygym[gepa]"]
    assert "[gepa] *" in shell.printed("agents")


def test_an_agent_of_another_package(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that another distribution brings is listed by what its metadata says; nothing of it is imported."""
    metadata = tmp_path / "mine-1.5.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.5\nSummary: Climbs hills\n")
    (metadata / "entry_points.txt").write_text("[evopolicygym.agents]\nclimber = mine_agent:make\n")
    (tmp_path / "mine_agent.py").write_text("raise SystemExit('nobody asked for this')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found, printed = by_name(shell), shell.printed("agents")

    assert (found["climber"]["summary"], found["climber"]["source"]) == ("Climbs hills", "mine 1.5")
    assert "Climbs hills" in printed


def test_a_listing_loads_no_library() -> None:
    """Listing agents loads none of the libraries that they play with."""
    program = (
        "import sys; from evopolicygym.agents.base import agent_listings; list(agent_listings()); print(*sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert {"cmaes", "httpx2", "gepa", "openevolve"}.isdisjoint(found.stdout.split())
