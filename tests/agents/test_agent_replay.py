"""A run's model is asked again what it was asked, and every answer is compared."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.agents.kit.model_requests import ModelRequests
from evopolicygym.agents.kit.scripted_model.server import Json, Reply, ScriptedModel
from evopolicygym.core.agent import AgentConfig, Allowance
from evopolicygym.core.check_result import unwatched
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.runs.agent_replay import AgentReplayOptions, replay_agent
from model_proxies import REAL_KEY, VARIABLE
from neutral_models import calling
from players import BAD, BROKEN, GOOD
from shell import Shell
from whole_runs import Told, config, played

SLOTS: Json = {"default_generation_settings": {"n_ctx": 4096}, "model_path": "/nowhere/m.gguf", "total_slots": 1}
AS_TEXT = ["```bash\nls\n```\n```bash\npwd\n```", "I wait.", "```bash\n./judge submit 0 1 2\n```"]


@pytest.fixture(autouse=True)
def real_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, REAL_KEY)


@pytest.fixture
def server() -> Iterator[ScriptedModel]:
    """A server that tells of itself what llama.cpp's does."""
    with ScriptedModel() as model:
        model.pages = {"/props": SLOTS, "/v1/models": {"data": [{"id": "scripted"}]}}
        yield model


def run(model: ScriptedModel, directory: Path, name: str, answers: list[Reply], **options: object) -> Told:
    """Play a run by an agent whose model answers so."""
    model.replies = list(answers)
    given = {"model_url": f"{model.url}/v1", "model_key": VARIABLE, **options}
    asked = config(directory / "runs", budget=3, isolation="none")
    return played(replace(asked, agent=AgentConfig(name, "scripted", given)))


def agent_finding(shell: Shell, paths: RunPaths, *options: object) -> Json:
    """Return what ``verify`` finds of a run's agent."""
    left = shell("verify", paths.root, "--replay", "--agent", "--isolation", "none", "--workers", 1, "--json", *options)
    (found,) = [finding for finding in json.loads(left.out)["findings"] if finding["what"] == "agent"]
    assert left.code == (0 if found["ok"] else 1), left
    return dict(found)


PROGRAMS = [Reply(f"Idea: {number}\n```python\n{text}```") for number, text in enumerate((BROKEN, BAD, GOOD))]


CALLS = [calling(ApiFormat.CHAT, "pwd", "ls"), Reply("I wait."), calling(ApiFormat.CHAT, "./judge submit 0 1 2")]
PLAYED: dict[str, tuple[str, list[Reply], dict[str, object]]] = {
    "rewrite": ("rewrite", PROGRAMS, {"prompt": "search", "episodes": 3}),
    "calls": ("neutral", CALLS, {"cache": "off"}),
    "text": ("neutral", [Reply(text) for text in AS_TEXT], {"actions": "text", "cache": "off"}),
}


@pytest.mark.parametrize("case", ["rewrite", "calls", pytest.param("text", marks=pytest.mark.nightly)])
def test_the_same_answers(shell: Shell, tmp_path: Path, server: ScriptedModel, case: str) -> None:
    """Every request is sent again as it was, with its seed; the same answers are found to be the same."""
    name, answers, options = PLAYED[case]
    told = run(server, tmp_path, name, answers, **options)
    first = [asked.body for asked in server.asked]
    server.asked.clear()
    server.replies = list(answers)
    found = agent_finding(shell, told.paths)

    assert (found["ok"], f"{len(first)} answers" in found["detail"]) == (True, True)
    assert [asked.body for asked in server.asked] == first
    assert told.state.opened.model_details["replayable"] == "yes"
    assert len({body["seed"] for body in first}) == len(first) > 1
    assert {body["cache_prompt"] for body in first} == {False}


def test_the_first_difference_is_named(shell: Shell, tmp_path: Path, server: ScriptedModel) -> None:
    """Another answer is found with its number and its place, and what the server tells otherwise; the run stands."""
    name, answers, options = PLAYED["rewrite"]
    told = run(server, tmp_path, name, answers, **options)
    with ScriptedModel() as other:
        other.pages = {"/props": SLOTS | {"build_info": "b2"}}
        other.replies = [answers[0], Reply(answers[1].text.replace("Idea: 1", "Idea: I")), *answers[2:]]
        found = agent_finding(shell, told.paths, "--model-url", other.url)

    assert not found["ok"]
    assert "answer 2 of" in found["detail"]
    assert "from character 7 on: recorded '1" in found["detail"]
    assert "build was unknown, is b2" in found["detail"]


def test_a_record_from_elsewhere_names_no_server(
    tmp_path: Path, server: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the address nor the key of a record that was made elsewhere is used."""
    name, answers, options = PLAYED["rewrite"]
    told = run(server, tmp_path, name, answers, **options)
    server.asked.clear()
    server.replies = list(answers)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    with_url = AgentReplayOptions(server.url)
    refused = replay_agent(read_run(told.paths.root), AgentReplayOptions(), unwatched)
    n_asked = len(server.asked)
    same = replay_agent(read_run(told.paths.root), with_url, unwatched)

    assert (refused[0], "--model-url" in refused[1], n_asked, same[0]) == (False, True, 0, True)
    assert all("authorization" not in asked.headers for asked in server.asked)


def test_a_run_without_a_score(shell: Shell, tmp_path: Path, server: ScriptedModel) -> None:
    """Where nothing was submitted, the model alone is played again."""
    server.replies = [Reply("I have no idea.")]
    given = {"model_url": server.url, "model_key": VARIABLE, "prompt": "search"}
    agent = AgentConfig("rewrite", "scripted", given, allowance=Allowance(tokens=1))
    told = played(replace(config(tmp_path / "runs", budget=3, isolation="none"), agent=agent))
    server.replies = [Reply("I have no idea.")]

    assert told.state.selected is None
    assert agent_finding(shell, told.paths)["ok"]


def test_a_run_without_its_transcript(shell: Shell, tmp_path: Path, server: ScriptedModel) -> None:
    """Where no answer is recorded, nothing is confirmed."""
    server.replies = [Reply("I have no idea.")]
    given = {"model_url": server.url, "model_key": VARIABLE, "prompt": "search"}
    agent = AgentConfig("rewrite", "scripted", given, allowance=Allowance(tokens=1))
    told = played(replace(config(tmp_path / "runs", budget=3, isolation="none"), agent=agent))
    told.paths.transcript.unlink()

    assert not agent_finding(shell, told.paths)["ok"]


def test_the_seed_is_the_run_s() -> None:
    """Seeds follow from the run's seed and the request's number; a user's own is every request's."""
    requests = ModelRequests("m", ApiFormat.CHAT, {}, {"server": "llama.cpp"}, caches=False)
    seeds = [requests.seed(run_seed, number) for run_seed in (0, 1) for number in (0, 1)]

    assert len(set(seeds)) == 4
    assert seeds == [requests.seed(run_seed, number) for run_seed in (0, 1) for number in (0, 1)]
    assert replace(requests, sampling={"seed": 7}).seed(0, 1) == 7
    assert replace(requests, server={}).seed(0, 1) is None
    assert replace(requests, wire=ApiFormat.MESSAGES).seed(0, 1) is None


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "yes"),
        ({"caches": True}, "cache"),
        ({"server": {"server": "llama.cpp", "slots": "2"}}, "2 slots"),
        ({"server": {"server": "Ollama"}}, "llama.cpp"),
        ({"wire": ApiFormat.MESSAGES}, "seed"),
    ],
)
def test_what_can_t_be_replayed(changes: dict[str, object], word: str) -> None:
    """The record says whether its model can be asked again, and why not."""
    requests = ModelRequests("m", ApiFormat.CHAT, {}, {"server": "llama.cpp", "slots": "1"}, caches=False)
    said = replace(requests, **changes).replayable  # type: ignore[arg-type]

    assert (word in said, said == "yes") == (True, not changes)


def test_an_agent_without_requests(shell: Shell, tmp_path: Path) -> None:
    """A run whose agent asks no model by itself is not passed over in silence."""
    asked = config(tmp_path / "runs", budget=3, isolation="none")
    found = agent_finding(shell, played(replace(asked, agent=AgentConfig("random"))).paths)

    assert not found["ok"]
    assert "'random'" in found["detail"]


@pytest.mark.parametrize("options", [["--agent"], ["--replay", "--model-url", "http://127.0.0.1:1"]])
def test_the_agent_is_replayed_with_the_run(shell: Shell, tmp_path: Path, options: list[str]) -> None:
    """Options of an agent's replay need both, and say so."""
    left = shell("verify", tmp_path, *options)

    assert (left.code, "--replay --agent" in left.err) == (2, True)
