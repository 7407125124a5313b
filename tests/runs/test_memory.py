"""Independent samples: with `memory = "none"` nothing of a conversation reaches a later one."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.agents.kit.scripted_model.conversation import Say, Script, Shell, Step
from evopolicygym.agents.kit.scripted_model.server import ScriptedModel
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.event import AgentStarted, CloseReason, Event, SubmissionPublished
from evopolicygym.core.run import RunState
from evopolicygym.core.task import BudgetRule
from evopolicygym.records.verify import findings
from evopolicygym.runs import run as runs
from evopolicygym.runs.config import RunConfig
from model_proxies import VARIABLE
from neutral_models import agent
from players import GOOD
from scripted_tools import program
from shell import Shell as CommandLine
from tool_runs import found, needs
from whole_runs import config, events, played

SECRET = re.compile(r"SECRET-[0-9a-f]{16}")
MEASURED = re.compile(r"\d+(\.\d+)?e-\d+|\d+\.\d+|\d+(?= m?s\b)|\d{4}-\d\d-\d\dT[^\"\\ ]+")
LOOK = """\
find . /tmp ~ -type f 2>/dev/null | grep -v -e judge_client -e __pycache__ | sort
cat notes/* /tmp/* ~/* ~/.[a-z]* 2>/dev/null; cat system/*
./judge task; ./judge info; ./judge list; ./judge show 0; ./judge show 1; ./judge diff 0; ./judge restore 0
python3 - <<'END'
import os, urllib.request
base = os.environ["EVOPOLICYGYM_INFO_URL"].removesuffix("/info")
for path in ("/info", "/submissions", "/submissions/0", "/submissions/1", "/submissions/0/policy"):
    try:
        print(path, urllib.request.urlopen(base + path).read().decode())
    except Exception as error:
        print(path, error, error.read().decode())
END
"""
LEAVE = f"""\
secret=SECRET-$(od -An -tx1 -N8 /dev/urandom | tr -d ' \\n'); echo $secret
for place in notes system /tmp ~; do echo $secret > $place/left; echo $secret > $place/.left; done
cat > system/policy.py <<END
# $secret
{GOOD}END
./judge check
"""
SUBMIT = """\
python3 - $(cat /tmp/left) <<'END'
import json, os, sys, urllib.request
base = os.environ["EVOPOLICYGYM_INFO_URL"].removesuffix("/info")
body = {"env_instances": [0, 1], "key": "the same key", "hypothesis": sys.argv[1]}
request = urllib.request.Request(base + "/submit", json.dumps(body).encode(), {"Content-Type": "application/json"})
print(json.loads(urllib.request.urlopen(request).read())["summary"]["returns"])
END
"""
HONEST: Sequence[Step] = (Shell(LOOK), Shell(LEAVE), Shell(SUBMIT), Shell(LOOK))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a key in its variable."""
    monkeypatch.setenv(VARIABLE, "key-of-the-model")


def sampling(runs_directory: Path, player: AgentConfig, budget: int = 6, **changes: Any) -> RunConfig:
    """Return a run of independent samples of at most two episodes."""
    small = config(runs_directory, isolation="bubblewrap", agent=player)  # type: ignore[arg-type] # replaced below
    task = replace(small.task, budget=BudgetRule(budget, 1, 2), choices={"memory": "none"}, **changes)
    return replace(small, task=task, agent=player)


def conversations(model: ScriptedModel) -> list[str]:
    """Return the last request of each conversation with the model, which holds the whole of it."""
    bodies = [asked.body for asked in model.asked if "messages" in asked.body]
    lengths = [len(body["messages"]) for body in bodies]
    ends = [at for at in range(len(bodies)) if at + 1 == len(bodies) or lengths[at + 1] <= lengths[at]]
    return [json.dumps(bodies[at]["messages"]) for at in ends]


def assert_independent(said: Sequence[str]) -> None:
    """Check that conversations differ in nothing but their own secrets and in what a clock says."""
    secrets = [set(SECRET.findall(text)) for text in said]
    plain = {MEASURED.sub("0.0", SECRET.sub("SECRET", text)) for text in said}

    assert [len(found) for found in secrets] == [1] * len(said)
    assert len(set.union(*secrets)) == len(said)
    assert len(plain) == 1


@needs_bubblewrap
def test_nothing_reaches_a_later_conversation(tmp_path: Path) -> None:
    """All that a model is sent is the same in each conversation, though each leaves traces wherever it can."""
    with ScriptedModel(Script(HONEST)) as model:
        told = played(sampling(tmp_path / "runs", agent(model)))
    starts = [event.turn for event in events(told.paths) if isinstance(event, AgentStarted)]

    assert_independent(conversations(model))
    assert len(conversations(model)) == len(told.state.submissions) == len(starts) == 3
    assert [one.charged.key for one in told.state.submissions] == [f"{number}:the same key" for number in range(3)]
    assert told.state.closed
    assert told.state.closed.reason is CloseReason.BUDGET_SPENT
    assert len({one.charged.checkpoint for one in told.state.submissions}) == 3
    assert sorted(path.name for path in told.paths.feedback.iterdir()) == [f"submit_{n:03d}" for n in range(3)]
    assert {path.name for path in told.paths.notes.iterdir()} == set()
    assert [path for path in told.paths.root.iterdir() if path.name.startswith("sample-")] == []
    assert not SECRET.search((told.paths.system / "policy.py").read_text(encoding="utf-8"))
    assert [finding for finding in findings(told.paths.root) if not finding.ok] == []


@needs_bubblewrap
def test_a_run_that_was_interrupted_goes_on_with_new_conversations(tmp_path: Path) -> None:
    """Between a submission and the end of its turn a run is stopped; resumed, it takes the other samples."""

    def stop(event: Event, _state: RunState) -> None:
        if isinstance(event, SubmissionPublished) and event.submit_index == 0:
            raise KeyboardInterrupt

    with ScriptedModel(Script(HONEST)) as model:
        asked = sampling(tmp_path / "runs", agent(model))
        with pytest.raises(KeyboardInterrupt):
            played(asked, stop)
        root = next((tmp_path / "runs").rglob("journal.jsonl")).parent
        (root / "sample-left" / "workspace").mkdir(parents=True)
        state = runs.resume(root, 1, lambda _paths, _state: None, lambda _event, _state: None)

    assert_independent([text for text in conversations(model) if SECRET.search(text)])
    assert len(state.submissions) == 3
    assert not (root / "sample-left").exists()


@needs_bubblewrap
def test_a_tool_begins_anew(tmp_path: Path) -> None:
    """A tool finds an empty home, is told of no conversation to continue, and its workspace is as at the start."""
    script = (
        "places = (home, pathlib.Path('feedback'), pathlib.Path('notes'))\n"
        "seen = [sorted(map(str, place.rglob('*'))) for place in places]\n"
        "tell(resumed=resumed, seen=seen, said=sys.argv)\n"
        "(home / 'history').write_text('left'); pathlib.Path('notes/left').touch(); ask(); submit()\n"
    )
    with ScriptedModel() as model:
        options = {"program": program(tmp_path, script), "model_url": model.url, "model_key": VARIABLE}
        told = played(sampling(tmp_path / "runs", AgentConfig("codex", "scripted", options), budget=3))
    lines = [line for line in told.paths.transcript.read_text(encoding="utf-8").splitlines() if "resumed" in line]

    assert len(told.state.submissions) == len(lines) == 2  # of the third episode no whole sample can be made
    assert lines[0] == lines[1]
    assert json.loads(lines[0])["resumed"] is False
    assert told.state.remaining == 1
    assert told.state.closed
    assert told.state.closed.reason is CloseReason.BUDGET_SPENT


@needs_bubblewrap
def test_conversations_that_submit_nothing_end_the_run(tmp_path: Path) -> None:
    """After three in a row the run closes; a limit of turns closes it before."""
    with ScriptedModel(Script((Say("No."),))) as model:
        told = played(sampling(tmp_path / "runs", agent(model)))

    assert (told.state.turns, len(told.state.submissions)) == (3, 0)
    assert told.state.closed
    assert told.state.closed.reason is CloseReason.AGENT_ENDED


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--agent", "tuner", "--max-episodes", "2"), "'tuner' can't play without memory"),
        (("--max-episodes", "2", "--", "true"), "'command' can't play without memory"),
        (("--agent", "NEUTRAL"), "max_episodes"),
        (("--agent", "NEUTRAL", "--max-episodes", "2", "--films", "1"), "--films"),
        (("--agent", "NEUTRAL", "--max-episodes", "2", "--finish"), "--finish"),
        (("--agent", "NEUTRAL", "--max-episodes", "2", "--isolation", "process"), "--isolation bubblewrap"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_what_has_no_conversations_is_refused(
    flags: tuple[str, ...], said: str, shell: CommandLine, tmp_path: Path
) -> None:
    """Where samples can't be independent, a run is refused with what would work, and leaves nothing."""
    model = ("neutral", "--model", "m", "--model-url", "http://127.0.0.1:1/v1", "--model-key", VARIABLE)
    words = [word for flag in flags for word in (model if flag == "NEUTRAL" else (flag,))]
    left = shell("run", "cartpole", "--budget", 6, "--memory", "none", "--runs", tmp_path / "runs", *words)

    assert left.code == 2
    assert said in " ".join(left.err.replace("│", " ").split())
    assert list((tmp_path / "runs").rglob("journal.jsonl")) == []


@pytest.mark.nightly
@pytest.mark.tools
@pytest.mark.parametrize(
    ("name", "tool"),
    [pytest.param(*pair, marks=needs(pair[1])) for pair in (("codex", "codex"), ("claude_code", "claude"))],
)
def test_a_real_tool_begins_anew(name: str, tool: str, tmp_path: Path) -> None:
    """An installed tool, which keeps its sessions in its home, is sent nothing of an earlier conversation either."""
    with ScriptedModel(Script(HONEST)) as model:
        options = {"program": found(tool) or "", "model_url": model.url, "model_key": VARIABLE}
        told = played(sampling(tmp_path / "runs", AgentConfig(name, "scripted", options)))
    holding = [set(SECRET.findall(json.dumps(asked.body))) for asked in model.asked]
    order = [next(iter(secrets)) for secrets in holding if secrets]

    assert len(told.state.submissions) == 3
    assert all(len(secrets) <= 1 for secrets in holding)
    assert len(set(order)) == len([one for at, one in enumerate(order) if at == 0 or order[at - 1] != one]) == 3
