"""Attacks that carry something from one episode to another, over a whole run: train, validation and held-out."""

import os
from pathlib import Path

import pytest

from evopolicygym.agents.builtin.scripted import ScriptedAgent, Submit, Write
from evopolicygym.checks import inspection
from evopolicygym.checks.sandbox import DECOYS_FILE, attack, find_marks, plant_decoys
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox.levels import choose
from whole_runs import config, played

CARRIERS = ("P10", "P11", "P12", "P58", "P10", "P11", "P12", "P58")
"""Each twice: what the first left, the second would find."""


def make_carrier(_config: AgentConfig) -> ScriptedAgent:
    """Submit everything that carries state, two episodes each."""
    steps: list[Write | Submit] = [Write(DECOYS_FILE, os.environ["DECOYS_OF_THIS_TEST"])]
    for place, identity in enumerate(CARRIERS):
        source = f"{attack(identity).source}\n# {place}\n"  # another checkpoint, to be validated too
        steps += [Write("policy.py", source), Submit((0, 1))]
    return ScriptedAgent(steps)


@pytest.mark.parametrize("level", ["bubblewrap", pytest.param("process", marks=pytest.mark.nightly)])
def test_nothing_is_carried(tmp_path: Path, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P10, P11, P12, P58: no episode finds what another left, hidden ones neither; nothing outlives the run."""
    try:
        choose(level)
    except SandboxError as error:
        pytest.skip(str(error))
    before, marked = inspection.descendants(os.getpid()), find_marks()
    with inspection.orphans_adopted(), plant_decoys(tmp_path) as decoys:
        decoys.write_addresses(tmp_path)
        monkeypatch.setenv("DECOYS_OF_THIS_TEST", (tmp_path / DECOYS_FILE).read_text())
        told = played(config(tmp_path / "runs", f"{__name__}:make_carrier", budget=2 * len(CARRIERS), isolation=level))
        printed = {path: text for path, text in told.texts() if path.name in {"stdout.txt", "stderr.txt"}}
        left = inspection.left_beyond(len(before))
        taken = decoys.reached_sockets()

    assert {path: text for path, text in printed.items() if "LEAK" in text} == {}
    assert {path.relative_to(told.paths.root).parts[0] for path in printed} >= {"workspace", "evaluation"}
    assert [one.published and one.published.status.value for one in told.state.submissions] == ["ok"] * len(CARRIERS)
    assert [one.failure for one in told.state.submissions for one in one.episodes if one] == [None] * 2 * len(CARRIERS)
    assert told.state.remaining == 0
    assert (left, taken, find_marks() - marked) == (0, [], set())
