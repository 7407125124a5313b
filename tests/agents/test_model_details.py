"""A record says which model a local server runs, and with which sampling it was asked."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from evopolicygym.agents.base import make
from evopolicygym.agents.kit.scripted_model.server import Json, Reply, ScriptedModel
from evopolicygym.analysis.ranking.comparability import comparable, differences, label_runs
from evopolicygym.core.agent import AgentConfig, ModelAgent
from evopolicygym.core.errors import UsageError
from evopolicygym.core.event import AgentEnded
from evopolicygym.records.reader import read_run
from evopolicygym.records.run_document import encode, summary_of
from model_proxies import REAL_KEY, VARIABLE
from played_runs import PlayedRun
from players import GOOD
from shell import Shell
from whole_runs import Told, config, played

FILE = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
LLAMA_CPP: dict[str, Json] = {
    "/props": {
        "default_generation_settings": {"n_ctx": 16384},
        "model_alias": f"/home/me/{FILE}",
        "model_path": f"/home/me/{FILE}",
        "build_info": "b6000-1a2b3c4",
    },
    "/v1/models": {"data": [{"id": FILE, "owned_by": "llamacpp", "meta": {"n_params": 1543714304}}]},
}
DIGEST = "a" * 64
OLLAMA: dict[str, Json] = {
    "/api/tags": {"models": [{"name": "other:latest"}, {"name": "scripted:latest", "digest": DIGEST}]},
    "/api/show": {
        "details": {"quantization_level": "Q4_K_M", "parameter_size": "7.6B"},
        "parameters": "stop  x\nnum_ctx     8192",
        "model_info": {"qwen2.context_length": 32768},
    },
    "/api/version": {"version": "0.12.3"},
}
VLLM: dict[str, Json] = {
    "/version": {"version": "0.11.0"},
    "/v1/models": {"data": [{"id": "scripted", "root": "Qwen/Qwen2.5-Coder-7B-AWQ", "max_model_len": 4096}]},
}
TOLD: list[tuple[dict[str, Json], dict[str, str]]] = [
    (
        LLAMA_CPP,
        {
            "server": "llama.cpp",
            "name": FILE,
            "file": FILE,
            "quantization": "q4_k_m",
            "context": "16384",
            "parameters": "1543714304",
            "build": "b6000-1a2b3c4",
        },
    ),
    (
        OLLAMA,
        {
            "server": "Ollama",
            "name": "scripted:latest",
            "digest": DIGEST,
            "quantization": "Q4_K_M",
            "context": "8192",
            "parameters": "7.6B",
            "build": "0.12.3",
        },
    ),
    (
        VLLM,
        {
            "server": "vLLM",
            "name": "scripted",
            "file": "Qwen/Qwen2.5-Coder-7B-AWQ",
            "quantization": "AWQ",
            "context": "4096",
            "build": "0.11.0",
        },
    ),
    (
        {**VLLM, "/v1/models": {"data": [{"id": "other"}, {"id": "scripted", "max_model_len": 4096}]}},
        {"server": "vLLM", "name": "scripted", "context": "4096", "build": "0.11.0"},
    ),
]


@pytest.fixture(autouse=True)
def real_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, REAL_KEY)


def agent(model: ScriptedModel, name: str = "rewrite", **options: Any) -> AgentConfig:
    """Return an agent that asks this model."""
    return AgentConfig(name, "scripted", {"model_url": f"{model.url}/v1", "model_key": VARIABLE, **options})


def run(model: ScriptedModel, directory: Path, **options: Any) -> Told:
    """Play a run of one candidate."""
    model.replies = [Reply(f"```python\n{GOOD}```")]
    asked = config(directory / "runs", budget=3, isolation="none")
    return played(replace(asked, agent=agent(model, prompt="search", episodes=3, **options)))


def details(model: ScriptedModel, **options: Any) -> dict[str, str]:
    """Return what an agent knows of its model."""
    made = make(agent(model, **options))
    assert isinstance(made, ModelAgent)
    return dict(made.model_details())


@pytest.mark.parametrize(("pages", "told"), TOLD, ids=["llama.cpp", "Ollama", "vLLM", "vLLM of several"])
@pytest.mark.parametrize("name", ["neutral", "rewrite"])
def test_what_a_server_tells(pages: dict[str, Json], told: dict[str, str], name: str) -> None:
    """Each kind of server is asked in its own words; no path of its machine is kept."""
    with ScriptedModel() as model:
        model.pages = pages
        found = details(model, name=name)
    of_requests = {found.pop(key): key for key in ("cache", "replayable") if key in found}

    assert found == told
    assert ("off" in of_requests, "on" in of_requests) == (
        (name == "rewrite", name == "neutral") if pages is LLAMA_CPP else (False, False)
    )
    assert ("yes" in of_requests) == (name == "rewrite" and pages is LLAMA_CPP)


def test_weights_are_named_by_their_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a server on this machine names a file of weights, its digest is recorded, and of no other file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    weights, other = tmp_path / "m.gguf", tmp_path / "secret"
    weights.write_bytes(b"GGUF and numbers")
    other.write_bytes(b"a secret")
    digests = []
    with ScriptedModel() as model:
        for file in (weights, weights, other):
            model.pages = {"/props": LLAMA_CPP["/props"] | {"model_path": str(file)}}
            digests.append(details(model).get("digest"))
    expected = sha256(weights.read_bytes()).hexdigest()

    assert digests == [expected, expected, None]


@pytest.mark.parametrize(
    "page", [{}, {"model_path": 7}, {"models": "x", "model_path": "m", "default_generation_settings": [1]}]
)
def test_a_server_that_tells_nothing(page: Json) -> None:
    """A server without such pages, or with others than expected, is no error."""
    with ScriptedModel() as model:
        model.pages = dict.fromkeys(("/props", "/api/tags", "/api/show", "/version"), page)
        found = details(model)
        assert {"digest", "context", "build"}.isdisjoint(found)
        url = model.url
    gone = make(AgentConfig("rewrite", "m", {"model_url": url}))
    assert isinstance(gone, ModelAgent)
    assert gone.model_details() == {}


def test_a_run_records_its_model(tmp_path: Path, shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    """The first event, run.json, show and the row have the model and the sampling; another name is a warning."""
    with ScriptedModel() as model:
        model.pages = LLAMA_CPP
        told = run(model, tmp_path, temperature=0.5, top_p=0.9, seed=7, answer_tokens=900)
        asked = model.asked[0].body
    sampling = {"temperature": "0.5", "top_p": "0.9", "seed": "7", "answer_tokens": "900"}
    expected = {**TOLD[0][1], **sampling, "cache": "off", "replayable": "yes"}
    document = json.loads(told.paths.document.read_bytes())
    (row,) = evopolicygym.load_runs(told.paths.root).runs

    assert (asked["temperature"], asked["top_p"], asked["seed"], asked["max_tokens"]) == (0.5, 0.9, 7, 900)
    assert read_run(told.paths.root).state.opened.model_details == expected
    assert document["model_details"] == expected
    assert row.model_details == expected
    assert "quantization q4_k_m" in shell.printed("show", told.paths.root)
    assert [FILE in record.getMessage() for record in caplog.records if "server runs" in record.getMessage()] == [True]
    assert "/home/me" not in told.paths.journal.read_text(encoding="utf-8")


def test_a_record_without_details(played_run: PlayedRun) -> None:
    """The document of a run without a model has no field for its details."""
    assert "model_details" not in encode(summary_of(read_run(played_run.paths.root)))


def test_repeats_of_two_models(played_run: PlayedRun) -> None:
    """Runs of an entry whose models differ are not pooled; unknown ones, and other entries, are."""
    (run,) = evopolicygym.load_runs(played_run.paths.root).runs
    small, large = (replace(run, model_details={"quantization": each}, run_id=each) for each in ("Q4", "Q8"))
    other = replace(large, agent="other", run_id="c", model_details={"quantization": "Q8", "temperature": "0"})

    assert list(differences([small, large], ())) == ["model_details"]
    assert not differences([small, run, other], ())
    assert not differences([small, large], ("model_details",))
    assert label_runs([small], ("model_details",))[0].agent == f"{run.agent}, model_details quantization Q4"
    assert [group.title for group in comparable([small, large, other], ())] == [
        "quantization Q4",
        "quantization Q8",
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -1},
        {"temperature": "hot"},
        {"temperature": float("nan")},
        {"top_p": 1.5},
        {"seed": 0.5},
        {"seed": True},
        {"answer_tokens": 0},
        {"answer_tokens": 1.5},
        {"seed": 1, "model_wire": "messages"},
    ],
)
@pytest.mark.parametrize("name", ["neutral", "rewrite"])
def test_invalid_sampling(options: dict[str, Any], name: str) -> None:
    """A value that no request can have is refused before a run is opened."""
    given = {"model_url": "http://127.0.0.1:9/v1", **options}
    with pytest.raises(UsageError, match=f"Invalid option {next(iter(options))}"):
        make(AgentConfig(name, "m", given))


@pytest.mark.parametrize(("tokens", "is_cut"), [(5, True), (5000, False), (0, False)])
def test_a_prompt_that_is_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture, tokens: int, is_cut: bool) -> None:  # noqa: FBT001 - a case
    """A server that counts far fewer tokens than it was sent is named once, in a finding and a warning."""
    message = {"role": "assistant", "content": "Hm."}
    usage = {"prompt_tokens": tokens, "completion_tokens": 1}
    answer = json.dumps({"choices": [{"message": message}], "usage": usage}).encode()
    with ScriptedModel() as model:
        model.replies = [Reply(raw=answer)] * 3
        asked = config(tmp_path / "runs", budget=3, isolation="none")
        told = played(replace(asked, agent=agent(model, "neutral")))
    (ended,) = [event for event in read_run(told.paths.root).events if isinstance(event, AgentEnded)]

    assert ("prompt_cut" in ended.findings) == is_cut
    assert len([record for record in caplog.records if "cuts what exceeds" in record.getMessage()]) == is_cut
