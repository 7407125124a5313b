"""A record says with which versions it was made, and a record from before it did stays as it was."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.agents.base import make
from evopolicygym.agents.builtin.codex import Codex
from evopolicygym.agents.kit import program
from evopolicygym.agents.kit.program import ask_version
from evopolicygym.agents.kit.tool import make_tool_agent
from evopolicygym.analysis.ranking.comparability import comparable, differences
from evopolicygym.analysis.results import load_results
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.errors import RecordError
from evopolicygym.core.event import SCHEMA
from evopolicygym.core.text import version_line
from evopolicygym.records.journal import check_schema
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.run_document import encode, summary_of
from evopolicygym.runs import provenance
from evopolicygym.runs.provenance import agent_version, machine_findings, package_version
from evopolicygym.version import __version__
from played_runs import PlayedRun
from shell import Shell


def tool_that(directory: Path, script: str) -> Path:
    """Return a tool that does what a shell script says."""
    file = directory / "tool"
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def test_a_run_names_the_package_and_the_machine(played_run: PlayedRun, shell: Shell) -> None:
    """The first event, run.json, show and the exported row name the version of the package, the kernel and bwrap."""
    opened = read_run(played_run.paths.root).state.opened
    document = json.loads(RunPaths(played_run.paths.root).document.read_bytes())
    shown = shell.printed("show", played_run.paths.root)

    assert opened.evopolicygym_version == document["evopolicygym_version"] == package_version()
    assert opened.evopolicygym_version.startswith(__version__)
    assert machine_findings().items() <= opened.findings.items()
    assert {"kernel", "machine"} <= opened.findings.keys()
    assert "agent_version" not in document
    assert f"made by evopolicygym {package_version()}" in shown
    assert evopolicygym.load_runs(played_run.paths.root).runs[0].evopolicygym_version == package_version()
    assert evopolicygym.load_runs(played_run.paths.root).runs[0].agent_version is None


def test_an_older_record_stays_byte_for_byte(played_run: PlayedRun) -> None:
    """The document of a run without the new fields is the document that older versions wrote."""
    record = read_run(played_run.paths.root)
    summary = replace(summary_of(record), evopolicygym_version="", agent_version="")
    assert encode(summary).keys() == encode(summary_of(record)).keys() - {"evopolicygym_version"}


def test_the_commit_of_a_checkout(tmp_path: Path) -> None:
    """A package in a checkout has its commit, a changed one is dirty, an untracked or ownerless one has none."""

    def git(*words: str) -> None:
        author = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(tmp_path), *author, *words]
        subprocess.run(command, check=True, capture_output=True)

    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    package = tmp_path / "package"
    package.mkdir()
    (package / "version.py").write_text("a = 1\n", encoding="utf-8")
    assert provenance._commit(package) == ""
    git("init")
    assert provenance._commit(package) == ""
    git("add", ".")
    git("commit", "-m", "first")
    commit = provenance._commit(package)
    assert len(commit) >= len("1a2b3c4d")
    assert commit.isalnum()
    (package / "version.py").write_text("a = 2\n", encoding="utf-8")
    assert provenance._commit(package) == f"{commit}.dirty"


def test_no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without git, or with one that hangs, the version has no commit."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance._commit(Path(evopolicygym.__file__).parent) == ""
    tool_that(tmp_path, "exec sleep 60").rename(tmp_path / "git")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(provenance, "GIT_S", 0.2)
    assert provenance._commit(Path(evopolicygym.__file__).parent) == ""


@pytest.mark.parametrize("isolation", ["auto", "none"])
def test_a_tool_tells_its_version(tmp_path: Path, isolation: str) -> None:
    """A tool is asked by its own path in the sandbox of its turns; its line is cut to what a record takes."""
    script = 'echo "(node:1) a warning"; test "$1" = --version && echo "codex-cli   1.2.3 $(printf %0100d 0)"'
    options = {"program": str(tool_that(tmp_path, script)), "model_url": "http://127.0.0.1:9/v1"}
    agent = make_tool_agent(Codex(), AgentConfig("codex", "m", options))
    level = read_level(isolation)
    assert agent_version(agent, level) == f"codex-cli 1.2.3 {'0' * 100}"[:80]


def read_level(isolation: str) -> str:
    """Return the isolation that a run would record."""
    from evopolicygym.sandbox.levels import choose

    return choose(isolation).isolation


def test_a_tool_that_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that fails, prints nothing, or doesn't answer in time has no version, and the run goes on."""
    assert ask_version((str(tool_that(tmp_path, "echo 1.0; exit 3")),), "none") == ""
    assert version_line(ask_version((str(tool_that(tmp_path, "true")),), "none")) == ""
    assert ask_version((str(tmp_path / "missing"),), "none") == ""
    monkeypatch.setattr(program, "VERSION_S", 0.2)
    assert ask_version((str(tool_that(tmp_path, "echo 1.0; exec sleep 60")),), "none") == ""


def test_repeats_with_two_versions_of_a_tool(played_run: PlayedRun) -> None:
    """Repeats that tell two versions of their tool are not pooled; an unknown one, and other agents, are."""
    (run,) = load_results([played_run.paths.root]).runs
    old, new = replace(run, agent_version="tool 1.0"), replace(run, agent_version="tool 1.1", run_id="b")
    other = replace(run, agent="other", agent_version="other 7", run_id="c")

    assert "agent_version" in differences([old, new], ())
    assert not differences([old, run, other], ())
    assert not differences([old, new], ("agent_version",))
    assert [group.title for group in comparable([old, new, other], ())] == [
        "agent version tool 1.0",
        "agent version tool 1.1",
    ]


def test_another_schema_names_the_version() -> None:
    """A record of another schema says which version wrote it, where it tells."""
    with pytest.raises(RecordError, match=r"newer version of evopolicygym, 9\.1\.0\+gabc: update"):
        check_schema({"schema_version": SCHEMA + 1, "evopolicygym_version": "9.1.0+gabc"})
    with pytest.raises(RecordError, match="older version of evopolicygym: read it"):
        check_schema({"schema_version": SCHEMA - 1})


@pytest.mark.parametrize("isolation", ["auto", "none"])
@pytest.mark.parametrize(("info", "told"), [('{"name": "x", "version": "2.0"}', "x 2.0"), ("7", "")])
def test_an_acp_tool_tells_its_version(tmp_path: Path, isolation: str, info: str, told: str) -> None:
    """A tool that speaks the Agent Client Protocol tells its version as it is initialised."""
    reply = '{"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, "agentInfo": %s}}' % info  # noqa: UP031 - braces
    script = tool_that(tmp_path, f"read line; echo '{reply}'")
    options = {"command": str(script), "model_url": "http://127.0.0.1:9/v1", "model_wire": "chat"}
    assert agent_version(make(AgentConfig("acp", "m", options)), read_level(isolation)) == told
