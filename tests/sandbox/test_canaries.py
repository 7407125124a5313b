"""Canaries: a whole run's record, in every file of it, holds no key, no path of this machine, no seed and no secret."""

from dataclasses import replace
from pathlib import Path

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.agents.kit.scripted_model.conversation import Say, Script, Shell
from evopolicygym.agents.kit.scripted_model.server import ScriptedModel
from evopolicygym.checks.inspection import files_containing
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import Split, SplitSource
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.records import experiment
from evopolicygym.records.reader import read_run
from model_proxies import REAL_KEY, VARIABLE
from tool_runs import EDIT, found, needs
from whole_runs import HELD_OUT, VALIDATION, config, played

RUNS, STATE = "canary-of-runs-5f3a9c", "canary-of-state-b81e07"
LOOK = "env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; ls -laR . ~ 2>&1; ./judge task; ./judge info"
STEPS = (Shell(EDIT), Shell(LOOK), Shell("./judge submit 0"), Shell("./judge submit 1"), Say("Nothing is left."))


@needs_bubblewrap
@pytest.mark.parametrize(
    ("agent", "tool"),
    [
        pytest.param("neutral", "", id="neutral"),
        *(
            pytest.param(agent, tool, id=agent, marks=[pytest.mark.nightly, pytest.mark.tools, needs(tool)])
            for agent, tool in (("codex", "codex"), ("claude_code", "claude"), ("opencode", "opencode"))
        ),
    ],
)
def test_record_holds_nothing_hidden(agent: str, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent prints all it can see of its surroundings; still nothing hidden is in a file's name or content."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / STATE))
    with ScriptedModel(Script(STEPS)) as model:
        options = {"model_url": f"{model.url}/v1", "model_key": VARIABLE}
        options |= {"program": found(tool)} if tool else {"model_wire": ApiFormat.CHAT.value}
        asked = config(tmp_path / RUNS, budget=2, isolation="bubblewrap")
        told = played(replace(asked, agent=AgentConfig(agent, "scripted", options)))
    opened = read_run(told.paths.root).state.opened
    owner = experiment.of_run(told.paths.root, opened)
    seeds = owner.cases("cartpole", SplitSource.PRIVATE).seeds
    hidden = (*seeds[Split.VALIDATION][:VALIDATION], *seeds[Split.HELD_OUT][:HELD_OUT], *seeds[Split.TRAIN][:2])
    words = {"key": REAL_KEY, "runs": RUNS, "state": STATE, "secret": owner.secret.hex()}
    words |= {f"seed {seed}": str(seed) for seed in hidden}

    assert told.state.held_out() is not None
    assert "submission 1: ok" in told.paths.transcript.read_text(encoding="utf-8")
    assert min(hidden) > 10**6
    assert [
        (str(path.relative_to(told.paths.root)), name) for path, name in files_containing(told.paths.root, words)
    ] == []
