"""What a user calls an agent: kept in the record, shown in place of its command, beside a hash of its program."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evopolicygym import load_runs
from evopolicygym.analysis.ranking.score_table import score_table
from evopolicygym.analysis.results import load_results
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.errors import UsageError
from evopolicygym.records.run_document import run_document
from evopolicygym.runs.config import decode_run_config
from evopolicygym.runs.preflight import program_sha256
from evopolicygym.runs.suites.records import find_results
from evopolicygym.runs.suites.suite import plan
from planned_records import lay, opened
from records_of_runs import changed, real_document, write
from suites import suite
from whole_runs import config, played, state_kept_in

pytestmark = pytest.mark.made_up


def agent_asked(**options: Any) -> AgentConfig:
    """Return the agent of a run that asks for it."""
    return decode_run_config({"task": "cartpole", "agent": options}, "here").agent


def test_a_label_is_kept_and_shown(tmp_path: Path) -> None:
    """A labelled program's runs go by the label in tables and exports, with the hash of its files."""
    script = tmp_path / "agent.py"
    script.write_text("print('nothing to submit')\n")
    agent = agent_asked(command=["python3", str(script)], label="mine-v2")
    with state_kept_in(tmp_path / "state"):
        run = played(replace(config(tmp_path / "runs", budget=2, isolation="none"), agent=agent))
    (result,) = load_results([tmp_path / "runs"]).runs
    (row,) = load_runs(tmp_path / "runs").runs

    assert result.label == "mine-v2"
    assert (row.agent, row.program_sha256) == ("mine-v2", result.program_sha256)
    assert result.program_sha256 == program_sha256(["python3", str(script)])
    assert run_document(run.paths)["agent"]["label"] == "mine-v2"


def test_the_hash_is_of_what_the_command_names(tmp_path: Path) -> None:
    """A changed file of a directory that the command names changes the hash; what names no file has none."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("1")
    before = program_sha256(["python3", str(tmp_path / "code")])
    (tmp_path / "code" / "a.py").write_text("2")

    assert len(before) == len(hashlib.sha256().hexdigest())
    assert program_sha256(["python3", str(tmp_path / "code")]) != before
    assert program_sha256(["python3", "-c", "pass"]) == program_sha256(["python3", str(tmp_path / "no.py")]) == ""


def test_two_labels_of_one_script_are_two_entries(tmp_path: Path) -> None:
    """Neither a suite nor a table takes the record of one for the other's."""
    agents = [{"command": ["python3", "/x/a.py"], "label": label} for label in ("one", "other")]
    first, second = plan(suite(tmp_path, agents=agents))
    root = lay(tmp_path / "runs" / "a", [opened(first)])
    results = find_results([first, second], tmp_path / "runs", lambda _record: True)

    assert (results[first.number].root, results[second.number].root) == (root, None)


def test_a_record_from_before_labels_is_still_the_suites(tmp_path: Path) -> None:
    """A suite that was begun before labels were recorded goes on where no other entry could be meant."""
    (run,) = plan(suite(tmp_path, agents=[{"command": ["python3", "/x/a.py"], "label": "one"}]))
    bare = replace(run.config.agent, label="")
    root = lay(tmp_path / "runs" / "a", [replace(opened(run), agent=bare)])

    assert find_results([run], tmp_path / "runs", lambda _record: True)[run.number].root == root


def test_programs_that_differ_are_noted(tmp_path: Path) -> None:
    """Repeats of one label that other files played are named below the table."""
    document = real_document(tmp_path / "real")
    for seed in (0, 1):
        one: dict[str, Any] = changed(document, "acrobot", "command", [-90.0, -80.0], seed)
        one["agent"] |= {"label": "mine", "program_sha256": str(seed) * 64}
        write(tmp_path / "runs", one)
    notes = score_table(load_results([tmp_path / "runs"]).runs, []).notes

    assert [note for note in notes if "program files" in note and "mine" in note]


@pytest.mark.parametrize("label", ["a\nb", " ", "x" * 81])
def test_a_label_that_can_t_be_shown_is_refused(label: str) -> None:
    """A label is printed in tables: it has to be printable, and not endless."""
    with pytest.raises(UsageError, match=r"\b80\b"):
        agent_asked(label=label)
