"""The check of an agent: what it says of those that keep their contract, and of those that break it."""

import gzip
import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.agents.kit.scripted_model.server import INPUT, OUTPUT
from evopolicygym.checks import inspection
from evopolicygym.checks.agent import check
from evopolicygym.checks.inspection import descendants, files_containing
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.check_result import CheckResult
from evopolicygym.model_proxy.formats import ApiFormat
from lifeline import PATIENCE_S
from places import SUPPORT
from scripted_tools import program
from shell import Shell
from tool_runs import found, needs

BEGINS, OF_A_MODEL = ("made", "starts"), ("asks its model", "tokens are counted")
ENDS = ("resumes", "run is scored", "leaves no process", "hidden files", "no key")
WITHOUT_MODEL = [*BEGINS, "edits the policy", "submits", *ENDS]
WITH_MODEL = [*BEGINS, *OF_A_MODEL, "edits the policy", "submits", "reads feedback", *ENDS]
REMEMBERS = """
notes = home / "notes"

def ask():
    said = json.loads(notes.read_text()) if notes.exists() else []
    shell = [{"type": "function", "name": "shell", "parameters": {"properties": {"command": {}}}}]
    body = json.dumps({"model": "scripted", "input": said, "tools": shell}).encode()
    with urllib.request.urlopen(urllib.request.Request(address + "/responses", body, key)) as answer:
        (item,) = json.load(answer)["output"]
    if "arguments" in item:
        command = json.loads(item["arguments"])["command"]
        printed = subprocess.run(command, shell=True, text=True, stdout=subprocess.PIPE).stdout
        print(printed, flush=True)
        item = {"type": "function_call_output", "output": printed}
    notes.write_text(json.dumps([*said, item]))
    return "output" in item

while ask():
    pass
"""
"""A tool's loop, for ``scripted_tools.py``."""

WITHOUT_CONVERSATION = {"kimi_code", "mini_swe_agent"}
"""One names its conversation when its first call ends, and has none where that is cut short; the other has none."""
FORGETS = "(home / 'notes').unlink(missing_ok=True)\n"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SUPPORT))


def failed(findings: list[CheckResult]) -> dict[str, str]:
    """Return what failed."""
    return {finding.name: finding.detail for finding in findings if not finding.ok}


@pytest.fixture
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give processes that end the time that they take on a busy machine."""
    monkeypatch.setattr(inspection, "GONE_S", PATIENCE_S)


def checked(agent: AgentConfig, patience_s: float = PATIENCE_S, isolation: str = "auto") -> list[CheckResult]:
    """Check an agent; nothing of it may be left by the check itself."""
    before = descendants(os.getpid())
    findings = list(check(agent.name, agent.model, agent.options, agent.command, patience_s, isolation))

    assert descendants(os.getpid()) <= before
    return findings


@pytest.mark.nightly
def test_agents_of_the_house() -> None:
    """The tuner keeps its contract: all that is looked at is well."""
    findings = checked(AgentConfig("tuner"))

    assert [one.name for one in findings] == WITHOUT_MODEL
    assert failed(findings) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["random", "scripted"])
def test_other_agents_of_the_house(name: str) -> None:
    """The built-ins that ask no model keep their contract too."""
    assert failed(checked(AgentConfig(name))) == {}


@pytest.mark.nightly
@needs_bubblewrap
@pytest.mark.parametrize("wire", [ApiFormat.CHAT, ApiFormat.MESSAGES])
def test_reference_harness(wire: ApiFormat) -> None:
    """The reference harness keeps its contract with a scripted model, in both formats."""
    findings = checked(AgentConfig("neutral", options={"model_wire": wire.value}))

    assert failed(findings) == {}
    assert "shown where to look, it found nothing" in findings[WITH_MODEL.index("hidden files")].detail


@needs_bubblewrap
@pytest.mark.usefixtures("_busy_machine")
def test_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    """An installed tool is tried with one command, without an account; each step is a finding with its numbers."""
    Path(program(tmp_path, REMEMBERS)).rename(tmp_path / "codex")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    left = shell("check", "agent", "codex", "--json")
    findings = {finding["name"]: finding for finding in json.loads(left.out)["findings"]}
    tokens, asked = findings["tokens are counted"], findings["asks its model"]["generations"]

    assert (left.code, list(findings)) == (0, WITH_MODEL), left.out
    assert findings["made"]["program"] == str(tmp_path / "codex")
    assert (tokens["input"], tokens["output"]) == (asked * INPUT, asked * OUTPUT)
    assert (findings["submits"]["submissions"], findings["submits"]["episodes"]) == (3, 24)
    assert "in the same conversation" in findings["resumes"]["detail"]


@pytest.mark.nightly
@needs_bubblewrap
@pytest.mark.parametrize(
    ("script", "broken"),
    [
        ("subprocess.run(['./judge', 'submit', '0-23'])", {"asks its model", "tokens are counted", "edits the policy"}),
        ("sys.exit('no such flag')", {"asks its model", "tokens are counted", "edits the policy", "submits"}),
        ("ask(); sys.exit('no answer was read')", {"edits the policy", "submits"}),
    ],
)
def test_tool_that_stops_at_a_step(script: str, broken: set[str], tmp_path: Path) -> None:
    """A tool that doesn't ask, or does nothing with the answers, fails at the steps that it doesn't take."""
    findings = failed(checked(AgentConfig("codex", options={"program": program(tmp_path, script)})))

    assert set(findings) - {"resumes", "run is scored"} == {*broken, "reads feedback"}


@pytest.mark.nightly
@needs_bubblewrap
def test_tool_that_forgets(tmp_path: Path) -> None:
    """A tool that names a conversation and begins another when it is told to go on doesn't pass."""
    findings = checked(AgentConfig("codex", options={"program": program(tmp_path, FORGETS + REMEMBERS)}))

    assert list(failed(findings)) == ["resumes"]


MISBEHAVING = {
    "players:make_raiser": ("submits", "the model is gone"),
    "misbehaving:make_litterer": ("leaves no process", "1 processes"),
    "misbehaving:make_waiter": ("submits", "had not ended after"),
    "misbehaving:make_snoop": ("hidden files", "workspace/found.txt"),
    "misbehaving:make_talker": ("no key", "workspace/found.txt"),
    "misbehaving:make_exit": ("starts", "ended with 7"),
    "misbehaving:nobody": ("made", "can't be loaded"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", MISBEHAVING)
def test_misbehaving(name: str) -> None:
    """Each way to break the contract is found by the finding that is named after it, and told."""
    broken, said = MISBEHAVING[name]
    found = failed(checked(AgentConfig(name), 15.0 if "waiter" in name else PATIENCE_S))

    assert broken in found
    assert said in found[broken]
    assert set(found) <= {broken, "starts", "resumes", "submits", "run is scored"}


def test_missing_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shell: Shell) -> None:
    """A tool that isn't installed is a finding that tells the command that installs it, and exit code 1."""
    monkeypatch.setenv("PATH", str(tmp_path))
    left = shell("check", "agent", "codex", "--json")
    document: dict[str, Any] = json.loads(left.out)

    assert (left.code, document["ok"]) == (1, False)
    assert "npm install -g @openai/codex@" in document["findings"][0]["detail"]


@pytest.mark.nightly
@pytest.mark.usefixtures("_busy_machine")
def test_program(shell: Shell) -> None:
    """Any program can be checked, as the agent ``command``."""
    script = "for _ in 1 2 3; do ./judge submit 0-7; done; true"
    left = shell("check", "agent", "command", "--json", "--patience", "120", "--", "sh", "-c", script)
    document = json.loads(left.out)
    found = {finding["name"]: finding["ok"] for finding in document["findings"]}

    assert left.code == 0, document
    assert (document["ok"], found) == (True, dict.fromkeys(WITHOUT_MODEL, True))


@pytest.mark.nightly
def test_program_in_a_file_beside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shell: Shell) -> None:
    """A file that the command names is found from where the check is typed, as by ``run``."""
    (tmp_path / "agent.sh").write_text("./judge submit 0-3\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    assert shell("check", "agent", "command", "--", "sh", "agent.sh").code == 0


@pytest.mark.usefixtures("_busy_machine")
def test_budget_that_is_left() -> None:
    """An agent that ends in good order may leave of its budget what it likes; the finding tells how much.

    At a level that hides nothing, nothing is looked for, and that is told.
    """
    findings = checked(AgentConfig("command", command=("sh", "-c", "./judge submit 0-3")), isolation="none")

    assert failed(findings) == {}
    assert re.findall(r"\d+", findings[WITHOUT_MODEL.index("submits")].detail) == ["2", "16"]
    assert "level none" in findings[WITHOUT_MODEL.index("hidden files")].detail


@pytest.mark.nightly
@pytest.mark.tools
@pytest.mark.parametrize(
    ("agent", "tool"),
    [
        pytest.param(agent, tool, marks=needs(tool))
        for agent, tool in (
            *(("codex", "codex"), ("claude_code", "claude"), ("gemini", "gemini"), ("qwen", "qwen")),
            *(("opencode", "opencode"), ("kimi_code", "kimi"), ("mini_swe_agent", "mini")),
        )
    ],
)
def test_tools_as_installed(agent: str, tool: str) -> None:
    """A tool as it is installed keeps its contract, and goes on in its conversation where it can."""
    findings = checked(AgentConfig(agent, options={"program": found(tool)}), 300.0)

    assert ([one.name for one in findings], failed(findings)) == (WITH_MODEL, {})
    told = findings[WITH_MODEL.index("resumes")].detail
    assert ("in the same conversation" in told) is (agent not in WITHOUT_CONVERSATION), told


def test_search(tmp_path: Path) -> None:
    """A word is found in a file, across chunks, in what is compressed, in names and in links."""
    word = "a-word-to-be-found"
    (tmp_path / "plain").write_bytes(b"x" * ((1 << 20) - 5) + word.encode())
    (tmp_path / "packed").write_bytes(gzip.compress(word.encode()))
    with zipfile.ZipFile(tmp_path / "archive", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside", word * 9)
    (tmp_path / f"named-{word}").mkdir()
    (tmp_path / "link").symlink_to(f"/nowhere/{word}")
    (tmp_path / "clean").write_bytes(b"\x1f\x8bnot compressed")

    names = {path.name for path, _ in files_containing(tmp_path, {"the word": word})}
    assert names == {"plain", "packed", "archive", f"named-{word}", "link"}
