"""The smallest harness: one request to a model, one program."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.agents.base import make
from evopolicygym.agents.builtin.rewrite import program_in
from evopolicygym.agents.kit.policy_form import policy_form
from evopolicygym.agents.kit.scripted_model.server import Reply, ScriptedModel
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.errors import AgentError, UsageError
from evopolicygym.core.event import AgentEnded
from evopolicygym.core.run import Stage
from evopolicygym.records.reader import find_runs, read_run
from evopolicygym.records.run_document import run_document
from model_proxies import REAL_KEY, VARIABLE
from players import BROKEN, GOOD
from shell import Shell
from whole_runs import Told, config, events, played

CHANGE = "<<<<<<< SEARCH\n{}\n=======\n{}\n>>>>>>> REPLACE"


@pytest.fixture(autouse=True)
def real_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, REAL_KEY)


def says(program: str, idea: str = "lean with the pole") -> Reply:
    """Return an answer that holds a program."""
    return Reply(f"Idea: {idea}\n```python\n{program}```\n")


def run(model: ScriptedModel, directory: Path, budget: int = 12, **options: object) -> Told:
    """Play a run by this harness."""
    given = {"model_url": f"{model.url}/v1", "model_key": VARIABLE, "episodes": 3, **options}
    asked = config(directory / "runs", budget=budget, isolation="none")
    return played(replace(asked, agent=AgentConfig("rewrite", "scripted", given)))


def questions(model: ScriptedModel) -> list[str]:
    """Return what the model was asked."""
    return [asked.body["messages"][0]["content"] for asked in model.asked]


def test_a_whole_run(shell: Shell, tmp_path: Path) -> None:
    """Each request is one program; what can't be constructed costs nothing, and the next request says why."""
    with ScriptedModel() as model:
        broken = says(f"{BROKEN}\nclass Policy: ...\n", "break it")
        model.replies = [Reply("I have no idea."), broken, says(GOOD), says(GOOD), *[Reply("?")] * 9]
        told = run(model, tmp_path, 24)
        asked = questions(model)
    (ended,) = [event for event in events(told.paths) if isinstance(event, AgentEnded)]
    document = run_document(told.paths)

    assert [len(one.charged.env_instances) for one in told.state.submissions][:2] == [3, 3]
    assert (document["budget"]["spent"], document["outcome"]["score"] > 100) == (24, True)
    assert "mean return" in asked[0]
    assert "its last steps" in asked[3]
    assert "had no ```python block" in asked[1]
    assert "break it: it could not be constructed" in asked[2]
    assert GOOD.strip() in asked[3]
    assert "the same program" in asked[4]
    assert "tools" not in model.asked[0].body
    assert ended.findings["prompt"].startswith("improve ")
    assert (
        "answers 1 played, 8 without a file, 1 with a file that was known, 1 with a file that could not be constructed"
        in shell.printed("show", told.paths.root)
    )


def test_a_first_request_that_exceeds_the_context(tmp_path: Path) -> None:
    """It pauses the run and spends no more episodes; with a larger context the run goes on, and is scored."""
    long = {"error": {"code": 400, "type": "exceed_context_size_error", "message": "too long", "n_ctx": 512}}
    with ScriptedModel() as model:
        model.replies = [Reply(status=400, raw=json.dumps(long).encode())]
        with pytest.raises(AgentError, match="longer than the model's context"):
            run(model, tmp_path)
        (root,) = find_runs(tmp_path / "runs")
        spent = read_run(root).state.spent
        model.replies = [says(GOOD)]
        evopolicygym.resume(root, on_warning=lambda _note: None)

    assert spent == 1
    assert read_run(root).state.stage is Stage.FINISHED


def test_the_prompt_that_shows_no_program(tmp_path: Path) -> None:
    """The other prompt shows the form of a file and what was tried, never the best program; its digest is another."""
    with ScriptedModel() as model:
        model.replies = [says(GOOD, "lean"), *[Reply("?")] * 9]
        told = run(model, tmp_path, 3, prompt="search")
        asked = questions(model)
    (ended,) = [event for event in events(told.paths) if isinstance(event, AgentEnded)]

    assert GOOD.strip() not in "".join(asked)
    assert "Nothing was tried yet." in asked[0]
    assert [len(one.charged.env_instances) for one in told.state.submissions] == [1, 2]  # the rest is spent on the best
    assert ended.findings["prompt"].startswith("search ")


def test_a_prompt_of_one_s_own(tmp_path: Path) -> None:
    """A file is a prompt if it has the task; what fills it is not filled again."""
    file = tmp_path / "prompt.md"
    file.write_text("Play well.\n<task>\n<tries>", encoding="utf-8")
    with ScriptedModel() as model:
        model.replies = [says(GOOD, "<task> and <starter>"), *[Reply("?")] * 9]
        run(model, tmp_path, 6, prompt=str(file), episodes=2)
        asked = questions(model)

    assert asked[0].startswith("Play well.")
    assert "<task> and <starter>: mean return" in asked[1]


@pytest.mark.parametrize(
    ("options", "named"),
    [({"prompt": "nowhere.md"}, "improve or search"), ({"episodes": 0}, ">= 1"), ({"steps": 2}, "prompt, episodes")],
)
def test_options_that_are_none(options: dict[str, object], named: str) -> None:
    """Other options are refused with those that are."""
    given = {"model_url": "http://127.0.0.1:1/v1", "model_key": VARIABLE, **options}
    with pytest.raises(UsageError, match=named):
        make(AgentConfig("rewrite", "m", given))


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        (f"```python\n{GOOD}```", GOOD),
        (f"```\n{GOOD}```", GOOD),
        (f"```python\nimport numpy\n```\n```python\n{GOOD}```", GOOD),
        ("```bash\nls\n```", None),
        (CHANGE.format("a = 1", "a = 2"), "a = 2\nb = 1\n"),
        (f"```\n{CHANGE.format('b = 1', 'b = 3')}\n```\n{CHANGE.format('a = 1', 'a = 4')}", "a = 4\nb = 3\n"),
        (CHANGE.format("c = 1", "c = 2"), None),
        (CHANGE.format("= 1", "= 2"), None),
        ("<<<<<<< SEARCH\na = 1\n", None),
    ],
)
def test_programs_in_answers(answer: str, program: str | None) -> None:
    """A whole file is the longest block of Python; changes must fit the best program, each in one place."""
    assert program_in(answer, "a = 1\nb = 1\n") == program


def test_a_form_for_the_transcript(tmp_path: Path) -> None:
    """Questions, answers and what the judge said are lines of the transcript."""
    with ScriptedModel() as model:
        model.replies = [says(GOOD), *[Reply("?")] * 9]
        told = run(model, tmp_path, 6)
    lines = [json.loads(line) for line in told.paths.transcript.read_text(encoding="utf-8").splitlines()]
    roles = Counter(line["role"] for line in lines)

    assert (roles["judge"], roles["user"] >= 1) == (2, True)


@pytest.mark.parametrize(
    ("space", "said"),
    [
        ({"type": "Discrete", "n": 3, "start": 1}, "an int from 1 to 3"),
        ({"type": "Box", "shape": [2], "dtype": "float32"}, "a numpy array of shape (2,) and type float32"),
        ({"type": "Tuple", "spaces": [{"type": "Text"}, {"type": "MultiBinary"}]}, "a tuple: a str; a numpy array of"),
        ({"type": "Dict", "spaces": {"goal": {"type": "Text"}}}, "a dict: 'goal' is a str"),
    ],
)
def test_the_form_of_a_policy(space: dict[str, object], said: str) -> None:
    """It says what an action of each kind of space is in Python."""
    form = policy_form({"obs_space": {"type": "Text"}, "action_space": space})

    assert f"Return the action: {said}" in form
    compile(form, "policy.py", "exec")


def test_what_a_request_leaves_out(tmp_path: Path) -> None:
    """A request has what the task is, and not what only an agent with a judge's client can use."""
    with ScriptedModel() as model:
        model.replies = [says(GOOD, ""), *[Reply("?")] * 9]
        run(model, tmp_path, 3)
        asked = questions(model)

    assert all(title in asked[0] for title in ("## Objective", "## Observation", "## Action", "## Termination"))
    assert not any(title in asked[0] for title in ("## Budget", "## Policy", "## Rules", "def draw("))
