"""Actions that a model writes as text: which are recognised, and how a turn goes by them."""

import json
import subprocess
from pathlib import Path

import pytest

from evopolicygym.agents.base import make
from evopolicygym.agents.kit.neutral_harness.text_actions import MOST_ACTIONS, actions_in
from evopolicygym.agents.kit.scripted_model.server import Reply, ScriptedModel
from evopolicygym.core.agent import AgentConfig, AgentEnd, Turn
from evopolicygym.core.errors import UsageError
from evopolicygym.model_proxy.formats import ApiFormat
from fakes import OpenRun, RunMaker
from model_proxies import REAL_KEY, VARIABLE
from neutral_models import calling, desk, raw_calling, replace

CALL = '{"name": "bash", "arguments": {"command": "cat AGENTS.md"}}'


@pytest.fixture(autouse=True)
def real_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, REAL_KEY)


@pytest.mark.parametrize(
    "text",
    [
        f"I read the rules first.\n```json\n{CALL}\n```\n",
        f"```\n{CALL}\n```",
        f"```tool_call\n{CALL}\n```",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tools>{CALL}</tools>",
        f"```xml\n<tool_call>\n{CALL}\n</tool_call>\n```",
        CALL,
        f"[{CALL}]",
        '{"type": "function", "function": {"name": "bash", "arguments": "{\\"command\\": \\"cat AGENTS.md\\"}"}}',
        '```json\n{"tool": "bash", "parameters": {"command": "cat AGENTS.md"}}\n```',
        '```json\n{"command": "cat AGENTS.md"}\n```',
        "<function=bash>\n<parameter=command>\ncat AGENTS.md\n</parameter>\n</function>",
        "```bash\ncat AGENTS.md\n```",
        "~~~sh\n$ cat AGENTS.md\n~~~",
    ],
)
def test_calls_as_text(text: str) -> None:
    """A call in any of the forms in which models write it is one command."""
    assert [command.strip() for command in actions_in(text)] == ["cat AGENTS.md"]


@pytest.mark.parametrize(
    "text",
    [
        "Nothing to do.",
        "```python\nprint(1)\n```",
        "```json\n[1, 2]\n```",
        '```json\n{"name": "python", "arguments": {"command": "x"}}\n```',
        '```json\n{"name": "bash", "arguments": {"command": 5}}\n```',
        "```bash\n" * 40_000,
        "[" * 100_000,
    ],
)
def test_other_texts_are_no_action(text: str) -> None:
    """Programs that are only shown, other tools and endless blocks are none."""
    assert actions_in(text) == []


def test_actions_keep_their_order_and_have_a_limit() -> None:
    """What comes first is done first; of an endless answer, the beginning."""
    text = f"```bash\necho 1\n```\n<tool_call>{CALL}</tool_call>\n```json\n{CALL}\n```\n```bash\necho 4\n```"

    assert [command.strip() for command in actions_in(text)] == ["echo 1", "cat AGENTS.md", "cat AGENTS.md", "echo 4"]
    assert len(actions_in("```bash\ntrue\n```\n" * 99)) == MOST_ACTIONS


@pytest.mark.parametrize(
    "text",
    [
        "```python system/policy.py\n{}\n```",
        "```system/policy.py\n{}\n```",
        "**system/policy.py**\n```python\n{}\n```",
        "### File: `system/policy.py`:\n```python\n{}\n```",
        "```python\n# system/policy.py\n{}\n```",
    ],
)
def test_a_block_headed_by_a_path_is_the_file(text: str, tmp_path: Path) -> None:
    """The file is written as it stands, whatever signs of the shell it holds."""
    program = "a = '$HOME `id` \\\\'\nEND\n\"'\"'"
    (command,) = actions_in(text.replace("{}", program))
    subprocess.run(["/bin/bash", "-c", command], cwd=tmp_path, check=True)
    written = (tmp_path / "system" / "policy.py").read_text(encoding="utf-8")

    assert written.removeprefix("# system/policy.py\n") == program + "\n"


def turn(run: OpenRun, model: ScriptedModel, *replies: Reply, **options: str) -> Turn:
    """Play one turn with a model that answers so."""
    from threading import Event

    model.replies += replies
    given = {"model_url": f"{model.url}/v1", "model_key": VARIABLE, **options}
    agent = make(AgentConfig("neutral", "scripted", given))
    return agent.play(replace(desk(run), isolation="none"), run.door, Event())


def test_a_model_that_writes_its_calls_plays(new_run: RunMaker) -> None:
    """Its actions are run, it is told what they printed, and the record says how it acted."""
    write = "```python system/policy.py\nclass Policy: ...\n```\n```bash\necho two\n```"
    with ScriptedModel() as model:
        ended = turn(new_run(), model, Reply(f"```json\n{CALL}\n```"), Reply(write), calling(ApiFormat.CHAT, "true"))
        told = [message["content"] for message in model.asked[2].body["messages"] if message["role"] == "user"]

    assert ended.findings["actions"] == "1 calls, 3 as text"
    assert "[exit code" in told[1]
    assert (
        told[2] == "[output of block 1]\nwrote system/policy.py\n[exit code 0]\n[output of block 2]\ntwo\n[exit code 0]"
    )


def test_text_from_the_start(new_run: RunMaker) -> None:
    """With actions as text no tool is offered, the form is told, and the whole run is played so."""
    run = new_run()
    with ScriptedModel() as model:
        ended = turn(run, model, *[Reply("```bash\ntrue\n```")] * 2, actions="text")
        first = model.asked[0].body

    assert "tools" not in first
    assert "```bash" in json.dumps(first["messages"])
    assert ended.findings["actions"] == "2 as text"


def test_answers_that_lead_to_nothing(new_run: RunMaker) -> None:
    """Three answers without an action end the turn with what the last one said, and with what may help."""
    with ScriptedModel() as model:
        ended = turn(new_run(), model, *[Reply("I would first look at the rules.")] * 3)
        other = turn(new_run("text"), model, *[Reply("Done.")] * 3, actions="text")

    assert (ended.end, other.end) == (AgentEnd.GAVE_UP, AgentEnd.GAVE_UP)
    assert ("first look at the rules" in ended.message, "actions=text" in ended.message) == (True, True)
    assert "actions=text" not in other.message


OTHER = '{"name": "judge", "arguments": {"task": "Submit solution"}}'
"""What Qwen2.5-Coder 0.5B answers to the first request, three times in a row."""


@pytest.mark.parametrize(
    ("reply", "options", "said"),
    [
        (Reply(OTHER), {}, ("as text", "'judge'", "--option actions=text", "--agent rewrite")),
        (Reply('{"name": "bash", "arguments": {"command": "ls}'), {}, ("as text", "not be read", "actions=text")),
        (Reply(OTHER), {"actions": "text"}, ("as text", "'judge'", "--agent rewrite")),
        (raw_calling(ApiFormat.CHAT, "{}", name="judge"), {}, ("another tool", "--option actions=text")),
    ],
)
def test_calls_that_can_not_be_run(
    reply: Reply, options: dict[str, str], said: tuple[str, ...], new_run: RunMaker
) -> None:
    """Three answers with calls that can't be run end the turn, whichever way they are written, with what may help."""
    with ScriptedModel() as model:
        ended = turn(new_run(), model, *[reply] * 4, **options)

    assert (ended.end, len(model.asked)) == (AgentEnd.GAVE_UP, 3)
    assert [words for words in said if words not in ended.message] == []


def test_an_option_that_is_none() -> None:
    """Other ways to act are refused with those that are."""
    given = {"model_url": "http://127.0.0.1:1/v1", "model_key": VARIABLE, "actions": "json"}
    with pytest.raises(UsageError, match="auto or text"):
        make(AgentConfig("neutral", "scripted", given))
