"""The libraries that search programs with a model, real ones, before a scripted model: whole runs and how they end."""

import json
import os
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import pytest

from enclosed import desk
from evopolicygym.agents.base import make
from evopolicygym.agents.kit import model_search
from evopolicygym.agents.kit.model_requests import ModelRequests
from evopolicygym.agents.kit.scripted_model.server import (
    CACHED,
    INPUT,
    OUTPUT,
    Json,
    Reply,
    ScriptedModel,
    answer_pieces,
)
from evopolicygym.checks.inspection import descendants
from evopolicygym.core.agent import AgentConfig, AgentEnd, Allowance, Turn
from evopolicygym.core.errors import MissingExtra, UsageError
from evopolicygym.core.event import AgentEnded
from evopolicygym.core.task import BudgetRule
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelUpstream
from evopolicygym.records.run_document import run_document
from evopolicygym.runs import turns
from fakes import OpenRun, RunMaker
from libraries import LIBRARIES, needs_library
from model_proxies import COST, PRICE, REAL_KEY, VARIABLE
from players import BAD, BROKEN, GOOD
from whole_runs import Told, config, events, played

nightly = pytest.mark.nightly  # what is installed for the gate brings no library
of_each_library = pytest.mark.parametrize(
    "library", [pytest.param(name, marks=(needs_library(name), nightly)) for name in LIBRARIES]
)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the real key in its variable."""
    monkeypatch.setenv(VARIABLE, REAL_KEY)


def agent(library: str, model: ScriptedModel) -> AgentConfig:
    """Return the agent that has this library ask this model."""
    return AgentConfig(library, "scripted", {"model_url": f"{model.url}/v1", "model_key": VARIABLE})


def says(*programs: str) -> list[Reply]:
    """Return answers that hold these programs."""
    return [Reply(f"Here it is:\n```python\n{program}```\n") for program in programs]


def proposing() -> ScriptedModel:
    """Return a model that always has a program that it never had before."""
    number = count()

    def answer(path: str, body: Json, _reply: Reply) -> object:
        return answer_pieces(path, body, says(f"{next(number)}\n")[0])

    return ScriptedModel(answer)  # type: ignore[arg-type]


def turn(run: OpenRun, library: str, model: ScriptedModel, stop: Event | None = None) -> Turn:
    """Play one turn on the toy, whose policies are texts that begin with their return."""
    return make(agent(library, model)).play(desk(run), run.door, stop or Event())


def last_policy(run: Told) -> str:
    """Return the policy of a run's last submission."""
    checkpoint = run.state.submissions[-1].charged.checkpoint
    return (run.paths.checkpoints / checkpoint / "policy.py").read_text(encoding="utf-8")


@of_each_library
def test_a_whole_run(library: str, tmp_path: Path) -> None:
    """The budget is spent exactly, the rest on the best candidate; usage is what was served; no file has the key."""
    with ScriptedModel() as model:
        model.replies += says(BAD, BROKEN, GOOD, *(f"{BAD}# {number}\n" for number in range(20)))
        run = played(replace(config(tmp_path / "runs", budget=17), agent=agent(library, model)))
    usage = run_document(run.paths)["usage"]
    questions = [asked.body["messages"][0]["content"] for asked in model.asked]

    assert sum(len(one.charged.env_instances) for one in run.state.submissions) == 17
    assert last_policy(run).strip() == GOOD.strip()
    assert run.state.finished is not None
    assert run.state.finished.score is not None
    assert run.state.finished.score > 100
    assert len(model.asked) >= 5
    assert (usage["requests"], usage["failed"], usage["unknown"]) == (len(model.asked), 0, 0)
    assert [usage[name] for name in ("input", "cached_input", "output")] == [
        len(model.asked) * tokens for tokens in (INPUT, CACHED, OUTPUT)
    ]
    assert all("cart" in question.lower() and "def act" in question for question in questions)
    assert all("train case 0: return" in question for question in questions[:1])
    assert any("ValueError" in question for question in questions)
    assert [path for path, text in run.texts() if REAL_KEY in text] == []
    assert model.asked[0].headers["authorization"] == f"Bearer {REAL_KEY}"
    lines = run.paths.transcript.with_name("model.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(model.asked)


def test_the_next_question_has_the_error_of_the_last_candidate(new_run: RunMaker, model: ScriptedModel) -> None:
    """A candidate that fails is explained once, whatever the library asks next; one that plays well is not."""

    def search(context: model_search.SearchContext) -> None:
        for program in ("1\n", "import_error\n", "2\n"):
            context.ask("What now?")
            context.play(program, context.cases)
        context.ask("What now?")

    upstream = ModelUpstream(f"{model.url}/v1", VARIABLE, ApiFormat.CHAT)
    run = new_run()
    requests = ModelRequests("scripted", ApiFormat.CHAT, {}, {}, caches=True)
    model_search.ModelSearchAgent(upstream, requests, "", 4, search, "pytest").play(desk(run), run.door, Event())
    questions = [asked.body["messages"][0]["content"] for asked in model.asked]
    explained = ["program that you proposed failed" in question for question in questions]

    assert explained == [False, False, True, False]


def test_a_search_that_begins_again_is_not_idle(new_run: RunMaker, model: ScriptedModel) -> None:
    """After an interruption, the candidates that were played before, which cost nothing now, are no lack of ideas."""
    run, asked = new_run(budget=BudgetRule(100)), list[int]()
    upstream = ModelUpstream(f"{model.url}/v1", VARIABLE, ApiFormat.CHAT)
    requests = ModelRequests("scripted", ApiFormat.CHAT, {}, {}, caches=True)
    most = model_search.MOST_IDLE + 2

    def turn(n_programs: int, stop: Event) -> Turn:
        def search(context: model_search.SearchContext) -> None:
            for number in range(n_programs):
                context.ask("What now?")
                context.play(f"{number}\n", context.cases)
                asked.append(number)
            stop.set()
            context.pause(0.0)

        return model_search.ModelSearchAgent(upstream, requests, "", 4, search, "pytest").play(
            desk(run), run.door, stop
        )

    turn(most, Event())
    ended = turn(most + 1, Event())

    assert (ended.end, asked) == (AgentEnd.STOPPED, [*range(most), *range(most + 1)])


@of_each_library
def test_candidates_run_nowhere_else(library: str, new_run: RunMaker, tmp_path: Path) -> None:
    """A candidate that would leave a trace wherever it runs leaves none where the judge doesn't run it."""
    trace = tmp_path / "trace"
    program = f"\nimport pathlib\npathlib.Path({str(trace)!r}).touch()\nevaluate = print\n"
    with ScriptedModel() as model:
        model.replies += says(*(f"{number}{program}" for number in range(2, 40)))
        ended = turn(new_run(), library, model)

    assert ended.end is AgentEnd.FINISHED
    assert not trace.exists()


@of_each_library
def test_the_same_cases_for_all(library: str, new_run: RunMaker) -> None:
    """Candidates play the same few train cases, and what is left goes to other cases."""
    run = new_run(budget=BudgetRule(35))
    with proposing() as model:
        ended = turn(run, library, model)
    cases = [one.charged.env_instances for one in run.session.state.submissions]

    assert ended.end is AgentEnd.FINISHED
    assert sum(map(len, cases)) == 35
    assert {case for one in cases[:-1] for case in one} == set(range(4))
    assert not set(cases[-1]) & set(range(4))


@of_each_library
def test_portions_are_kept(library: str, new_run: RunMaker) -> None:
    """Where submissions have a size, each of a search has it, and the budget is spent."""
    run = new_run(budget=BudgetRule(16, min_per_submission=3, max_per_submission=5))
    with proposing() as model:
        turn(run, library, model)
    sizes = [len(one.charged.env_instances) for one in run.session.state.submissions]

    assert sum(sizes) == 16
    assert all(3 <= size <= 5 for size in sizes[:-1])


@of_each_library
def test_a_model_without_ideas(library: str, new_run: RunMaker) -> None:
    """A model that says the same again and again is not asked for ever; the budget goes to the best candidate."""
    run = new_run(budget=BudgetRule(24))
    with ScriptedModel() as model:
        model.replies += says(*["7\n"] * 100)
        ended = turn(run, library, model)

    assert ended.end is AgentEnd.FINISHED
    assert run.session.state.remaining == 0
    assert len(model.asked) <= 3 * model_search.MOST_IDLE


@of_each_library
def test_stopped(library: str, new_run: RunMaker) -> None:
    """A search that is to stop while its model thinks is gone in seconds, with its usage told."""
    stop, turns = Event(), list[Turn]()
    run = new_run()
    with ScriptedModel() as model:
        model.replies += [Reply(hang="before")]
        thread = Thread(target=lambda: turns.append(turn(run, library, model, stop)))
        thread.start()
        assert model.came.wait(60)
        began = monotonic()
        stop.set()
        thread.join(60)
        seconds = monotonic() - began

    assert [one.end for one in turns] == [AgentEnd.STOPPED]
    assert seconds < 30
    assert turns[0].usage["requests"] == 1


@of_each_library
def test_a_model_that_never_answers(library: str, new_run: RunMaker) -> None:
    """A key that isn't taken pauses the run at once, with what the server said and what to look at."""
    with ScriptedModel() as model:
        model.replies += [Reply("no such key", status=401)] * 3
        ended = turn(new_run(), library, model)

    assert (ended.end, len(model.asked)) == (AgentEnd.UNAUTHORIZED, 1)
    assert ("no such key" in ended.message, "--model-key" in ended.message) == (True, True)


@of_each_library
def test_a_model_that_fails_later(library: str, new_run: RunMaker) -> None:
    """A server that rejects a request without blaming it pauses the run, with its usage told; it isn't asked again."""
    with ScriptedModel() as model:
        model.replies += [*says("3\n"), *[Reply("not now", status=400)] * 5]
        ended = turn(new_run(budget=BudgetRule(32)), library, model)

    assert (ended.end, len(model.asked)) == (AgentEnd.UNAVAILABLE, 2)
    assert "not now" in ended.message
    assert (ended.usage["requests"], ended.usage["failed"]) == (2, 1)


@pytest.mark.parametrize(
    ("library", "broken"),
    [
        pytest.param("openevolve", "ISLANDS = 2", marks=(needs_library("openevolve"), nightly)),
        pytest.param("gepa", "<side_info>", marks=(needs_library("gepa"), nightly)),
    ],
)
def test_a_library_that_breaks(library: str, broken: str, new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the library raises ends the turn as crashed, with its words."""
    from evopolicygym.agents.builtin import gepa, openevolve

    monkeypatch.setattr(gepa, "PROMPT", gepa.PROMPT.replace(broken, ""))
    monkeypatch.setattr(openevolve, "_answer", lambda *_: {"seed": "none"})
    with ScriptedModel() as model:
        ended = turn(new_run(), library, model)

    assert ended.end is AgentEnd.CRASHED
    assert "ValueError" in ended.message


@of_each_library
def test_taken_up_again(library: str, new_run: RunMaker) -> None:
    """A search begins anew after an interruption; what was played is answered from the record, and charged once."""
    run, stop = new_run(budget=BudgetRule(32)), Event()
    with ScriptedModel() as model:
        model.replies += [*says("3\n"), Reply(hang="before")]
        thread = Thread(target=turn, args=(run, library, model, stop))
        thread.start()
        while len(model.asked) < 2:
            assert thread.is_alive()
            model.came.clear()
            model.came.wait(0.1)
        stop.set()
        thread.join(60)
        before = len(run.session.state.submissions)
        model.released.set()
        model.replies[:] = says("3\n", *(f"{number}\n" for number in range(4, 40)))
        ended = turn(run, library, model)
    charged = [one.charged for one in run.session.state.submissions]

    assert ended.end is AgentEnd.FINISHED
    assert before >= 2
    assert sum(len(one.env_instances) for one in charged) == 32
    assert len({one.checkpoint for one in charged[:before]} & {one.checkpoint for one in charged[before:-1]}) == 0


@of_each_library
def test_transcript(library: str, new_run: RunMaker) -> None:
    """The transcript has what was asked, answered and played, and the library's own words, a JSON line each."""
    run = new_run()
    with proposing() as model:
        turn(run, library, model)
    lines = [json.loads(line) for line in run.paths.transcript.read_text(encoding="utf-8").splitlines()]

    assert {line["role"] for line in lines} == {"user", "assistant", "judge", "library"}
    assert sum(line["role"] == "assistant" for line in lines) == len(model.asked)


ASKED = 3
"""Requests after which a limit below is reached."""


def limited(library: str, model: ScriptedModel, runs: Path, **limits: float) -> tuple[Told, list[tuple[str, str]]]:
    """Play a run under limits that a library, with a model of many ideas, would go over; return how its turns ended."""
    model.replies += says(BAD, *(f"{GOOD}# {number}\n" for number in range(2)))
    model.replies += [Reply(hang="before")] * ("seconds" in limits)
    model.replies += says(*(f"{BAD}# {number}\n" for number in range(40)))
    who = replace(agent(library, model), allowance=Allowance(**limits))  # type: ignore[arg-type] # by name
    before = descendants(os.getpid())
    told = played(replace(config(runs, budget=24), agent=who, price=PRICE))

    assert descendants(os.getpid()) <= before
    return told, [(event.end, event.message) for event in events(told.paths) if isinstance(event, AgentEnded)]


@of_each_library
@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"tokens": (ASKED - 1) * (INPUT + OUTPUT) + 1}, "the limit of 2,101 tokens is reached"),
        ({"cost": (ASKED - 0.5) * COST}, f"the limit of {(ASKED - 0.5) * COST:.2f} USD is reached"),
        ({"seconds": 50.0}, "the limit of 50 seconds is reached"),
    ],
)
def test_limits(
    library: str, limits: dict[str, float], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit ends the search, after the answer that reached it was played, and all of the library's processes."""
    with ScriptedModel() as model:
        monkeypatch.setattr(turns, "METER_S", 0.1)
        late = "seconds" in limits  # the time is up as soon as the model was asked once more
        monkeypatch.setattr(turns.TurnMeter, "seconds", property(lambda _: 99.0 * late * (len(model.asked) > ASKED)))
        told, ends = limited(library, model, tmp_path / "runs", **limits)
    document = run_document(told.paths)

    assert ends == [("allowance_spent", said)]
    assert (document["outcome"]["closed"], document["outcome"]["status"]) == ("allowance_spent", "scored")
    assert document["outcome"]["score"] > 100
    assert 0 < document["budget"]["spent"] < 24
    assert len(model.asked) == document["usage"]["generations"] == ASKED + late
    assert document["usage"]["cost"] == pytest.approx(ASKED * COST)


@of_each_library
def test_limit_of_turns(library: str, tmp_path: Path) -> None:
    """A search is one turn: a limit of one is never in its way."""
    with ScriptedModel() as model:
        told, ends = limited(library, model, tmp_path / "runs", turns=1)

    assert [end for end, _ in ends] == ["finished"]
    assert run_document(told.paths)["outcome"]["closed"] == "budget_spent"


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_missing_is_named(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a model, or without its library, an agent is refused with what would help."""
    with pytest.raises(UsageError, match=f"--agent {library} --model NAME"):
        make(AgentConfig(library))
    monkeypatch.setattr(model_search, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=rf"evopolicygym\[{library}\]"):
        make(AgentConfig(library, "m", {"model_url": "http://a/v1"}))
