"""Limits that a user sets: each ends the agent, the run closes for it and is scored, and what was used is kept."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from enclosed import needs_bubblewrap
from evopolicygym.agents.kit.scripted_model.server import INPUT, OUTPUT, ScriptedModel
from evopolicygym.core.agent import AgentConfig, Allowance
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.event import AgentEnded, AgentMetered, AgentStarted, CloseReason, RunClosed, RunStopped
from evopolicygym.core.run import after, fold
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.records.run_document import run_document
from evopolicygym.runs import turns
from evopolicygym.runs.run import play, resume
from fakes import TIME, opening
from model_proxies import COST, PRICE, VARIABLE
from neutral_models import calling
from scripted_tools import program as scripted_tool
from whole_runs import Told, config, events, played

pytestmark = pytest.mark.usefixtures("real_key")
ASKING = "submit()\nwhile True: ask(); time.sleep(0.05)"


def limited(
    model: ScriptedModel, directory: Path, script: str, agent: str = "codex", level: str = "none", **limits: Any
) -> Any:
    """Return a run whose agent does as a script says, under limits; the scripted model has a price."""
    options = {"model_url": model.url, "model_key": VARIABLE}
    options |= {"program": scripted_tool(directory, script)} if agent == "codex" else {}
    who = AgentConfig(agent, "scripted", options, allowance=Allowance(**limits))
    asked = config(directory / "runs", budget=5, isolation=level)
    return replace(asked, agent=who, price=PRICE)


def ends(told: Told) -> list[tuple[str, str]]:
    """Return how each turn ended."""
    return [(event.end, event.message) for event in events(told.paths) if isinstance(event, AgentEnded)]


def assert_ended(told: Told, limit: str) -> None:
    """Assert that the last turn, and no other, ended by a limit."""
    *before, (end, message) = ends(told)
    assert "allowance_spent" not in dict(before)
    assert (end, limit in message) == ("allowance_spent", True)


@needs_bubblewrap
@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"tokens": 2 * (INPUT + OUTPUT) + 1}, "2,101 tokens"),
        pytest.param({"cost": 2.5 * COST}, f"{2.5 * COST:.2f} USD", marks=pytest.mark.nightly),
    ],
)
def test_limit_ends_a_tool(limits: dict[str, float], said: str, model: ScriptedModel, tmp_path: Path) -> None:
    """A tool that would go on for ever is ended at its limit; no turn follows, and what was submitted is scored."""
    told = played(limited(model, tmp_path, ASKING, level="bubblewrap", **limits))
    document = run_document(told.paths)

    assert_ended(told, said)
    assert document["outcome"]["closed"] == CloseReason.ALLOWANCE_SPENT
    assert (document["outcome"]["score"] is None, document["budget"]["spent"]) == (False, 1)
    assert document["usage"]["generations"] == len(model.asked) == 3
    assert document["usage"]["cost"] == pytest.approx(3 * COST)
    board = evopolicygym.leaderboard(told.paths.root)
    assert [dict(one.early) for one in board.groups[0].standings if one.early] == [{f"max_{next(iter(limits))}": 1}]


def test_limit_of_turns(model: ScriptedModel, tmp_path: Path) -> None:
    """After so many turns no further one is begun, and the run closes for that; without a submission, no score."""
    told = played(limited(model, tmp_path, "ask()", turns=2))

    assert [end for end, _ in ends(told)] == ["gave_up", "gave_up"]
    assert run_document(told.paths)["outcome"]["closed"] == CloseReason.ALLOWANCE_SPENT
    assert run_document(told.paths)["outcome"]["status"] == "no_ok_submit"


def test_limit_of_a_command(model: ScriptedModel, tmp_path: Path) -> None:
    """A program of the user's own is ended at a limit of tokens as a tool is."""
    script = (
        "import os, time, urllib.request\n"
        "while True:\n"
        "    url = os.environ['OPENAI_BASE_URL'] + '/chat/completions'\n"
        "    key = {'Authorization': 'Bearer ' + os.environ['OPENAI_API_KEY']}\n"
        '    request = urllib.request.Request(url, b\'{"model": "scripted", "messages": []}\', key)\n'
        "    urllib.request.urlopen(request).read()\n"
        "    time.sleep(0.05)\n"
    )
    asked = limited(model, tmp_path, "", "command", tokens=2 * (INPUT + OUTPUT))
    told = played(replace(asked, agent=replace(asked.agent, command=("python3", "-c", script))))

    assert_ended(told, "2,100 tokens")
    assert (len(ends(told)), len(model.asked)) == (1, 2)


def test_limit_of_the_neutral_agent(model: ScriptedModel, tmp_path: Path) -> None:
    """The reference harness asks no more at its limit, after the last answer's commands have run."""
    model.replies = [calling(ApiFormat.CHAT, "./judge submit 0")] * 5
    asked = limited(model, tmp_path, "", "neutral", tokens=2 * (INPUT + OUTPUT))
    options = {**asked.agent.options, "model_url": model.url + "/v1"}
    told = played(replace(asked, agent=replace(asked.agent, options=options)))

    assert_ended(told, "2,100 tokens")
    assert (len(model.asked), told.state.spent) == (2, 2)


def test_limit_of_time_for_any_agent(tmp_path: Path) -> None:
    """An agent that asks no model is ended when its time is up, too."""
    asked = config(tmp_path, isolation="none")
    sleeping = ("sleep", "600")
    told = played(replace(asked, agent=AgentConfig("command", command=sleeping, allowance=Allowance(seconds=0.5))))

    assert_ended(told, "0.5 seconds")
    assert told.state.close_reason is CloseReason.ALLOWANCE_SPENT


def test_interruption_forgets_no_usage(model: ScriptedModel, tmp_path: Path) -> None:
    """What a turn had used when it was interrupted counts when the run is resumed."""
    paths: list[Any] = []
    script = "mark = home / 'mark'\nfor _ in range(90 if mark.exists() else 4): ask()\nmark.touch(); time.sleep(600)"
    asked = limited(model, tmp_path, script, tokens=6 * (INPUT + OUTPUT))

    check = turns.TurnMeter.check

    def interrupted(meter: turns.TurnMeter, left: float | None) -> float:
        if meter.usage.get("generations") == 4:
            raise KeyboardInterrupt
        return min(check(meter, left), 0.1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns.TurnMeter, "check", interrupted)
        with pytest.raises(KeyboardInterrupt):
            play(asked, lambda opened, _: paths.append(opened), lambda _event, _state: None)
    state = resume(paths[0].root, 1, lambda _paths, _state: None, lambda _event, _state: None)
    told = Told(paths[0], state)

    assert [event.reason for event in events(paths[0]) if isinstance(event, RunStopped)] == ["interrupted"]
    assert_ended(told, "6,300 tokens")
    assert (len(model.asked), state.used.tokens) == (6, 6 * (INPUT + OUTPUT))
    assert run_document(paths[0])["usage"]["generations"] == 6
    assert run_document(paths[0])["usage"]["cost"] == pytest.approx(6 * COST)


def test_fold_holds_the_allowance() -> None:
    """A run that used up its allowance closes for that and nothing else, and its agent plays no further turn."""
    agent = AgentConfig("codex", allowance=Allowance(tokens=100))
    spent = AgentEnded(TIME, 0, "finished", usage={"input": 90, "output": 10})
    state = fold([opening(agent=agent), AgentStarted(TIME, 0), spent])

    assert after(state, RunClosed(TIME, CloseReason.ALLOWANCE_SPENT)).closed is not None
    with pytest.raises(RecordError, match="allowance_spent"):
        after(state, RunClosed(TIME, CloseReason.AGENT_ENDED))
    with pytest.raises(RecordError, match="allowance"):
        after(state, AgentStarted(TIME, 1))


def test_fold_adds_up_interrupted_turns() -> None:
    """The last note of a turn counts where that was never ended; where it was, its end counts and no note."""
    notes = [AgentMetered(TIME, 0, 5.0, {"input": 10}), AgentMetered(TIME, 0, 9.0, {"input": 20, "cost": 0.5})]
    ended = AgentEnded(TIME, 0, "finished", usage={"input": 7, "output": 1, "cost": 0.25}, seconds=2.0)
    again = [AgentStarted(TIME, 0), AgentMetered(TIME, 0, 1.0, {"input": 5}), ended]
    used = fold([opening(), AgentStarted(TIME, 0), *notes, *again]).used

    assert (used.tokens, used.cost, used.seconds, used.turns) == (28, 0.75, 11.0, 1)


@pytest.mark.parametrize(
    ("name", "options", "limits", "said"),
    [
        ("random", {}, {"tokens": 5}, "random"),
        ("command", {}, {"cost": 5.0}, "command"),
        ("command", {"model_url": "http://127.0.0.1:9"}, {"cost": 5.0}, "--price"),
    ],
)
def test_limits_that_cannot_be_kept(
    name: str, options: dict[str, str], limits: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """A limit of cost or tokens without a door, and of cost without a price, is refused before a run is opened."""
    command = ("true",) if name == "command" else ()
    agent = AgentConfig(name, "nobody-knows-me" if options else "", options, command, allowance=Allowance(**limits))
    with pytest.raises(UsageError, match=said):
        played(replace(config(tmp_path / "runs"), agent=agent))

    assert not (tmp_path / "runs").exists()
