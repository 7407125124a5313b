"""The one door for records: what each verb says of runs from elsewhere, and what a record can't claim."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_verify_forged import changed, forge

import evopolicygym
from evopolicygym.core.event import RunOpened
from evopolicygym.core.task import Success, SuccessRule
from evopolicygym.records.paths import RunPaths
from evopolicygym.runs.preflight import import_for_record
from played_runs import PlayedRun
from release_run import write_release
from shell import Shell

MANY = ("leaderboard", "diagnose", "audit", "export", "report", "bundle", "post-hoc")
"""Verbs that take many runs: a record that can't be used stops none of them for the rest."""
WHOLE, UNUSABLE = 0, 3
"""Exit codes: the verb does its work; the record can't be used."""
USABLE_STATES = ("good", "half_written", "foreign")


def good(_run: RunPaths) -> None:
    """Leave the record as it was played."""


def half_written(run: RunPaths) -> None:
    """Leave half of ``run.json``, as a full disk does."""
    text = run.document.read_bytes()
    run.document.write_bytes(text[: len(text) // 2])


def foreign(run: RunPaths) -> None:
    """Have the record read by somebody who neither played it nor knows its secret."""
    os.environ["XDG_STATE_HOME"] = str(run.root.parent / "nobody")


def older(run: RunPaths) -> None:
    """Have the record written by an older version."""
    with_schema(run, 2)


def newer(run: RunPaths) -> None:
    """Have the record written by a newer version."""
    with_schema(run, 99)


def unreadable(run: RunPaths) -> None:
    """Have the event log of a kind that can't be read, as one is to whom its permissions don't allow it."""
    run.journal.unlink()
    run.journal.mkdir()


def cut(run: RunPaths) -> None:
    """Cut the event log in the middle of a line."""
    text = run.journal.read_bytes()
    run.journal.write_bytes(text[: len(text) // 2])


def ghost(run: RunPaths) -> None:
    """Leave ``run.json`` without an event log."""
    run.journal.unlink()


def empty(run: RunPaths) -> None:
    """Leave an event log without an event, as a process that was killed before the run was opened."""
    run.journal.write_bytes(b"")


def with_schema(run: RunPaths, schema: int) -> None:
    """Write the event log anew, with a chain that fits, as a version with another schema would have."""
    previous, lines = "0" * 64, []
    for number, line in enumerate(run.journal.read_bytes().splitlines()):
        event = json.loads(line)["event"]
        if number == 0:
            event["schema_version"] = schema
        text = json.dumps(event, separators=(",", ":")).encode()
        checksum = hashlib.sha256(text).hexdigest()
        head = f'{{"sequence":{number},"previous":"{previous}","length":{len(text)},"checksum":"{checksum}","event":'
        lines.append(head.encode() + text + b"}\n")
        previous = hashlib.sha256(lines[-1]).hexdigest()
    run.journal.write_bytes(b"".join(lines))


STATES = (good, half_written, foreign, older, newer, unreadable, cut, ghost, empty)


@pytest.fixture
def run(run_copy: PlayedRun, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    """Return a copy of a whole run that its user may change; the environment is put back."""
    monkeypatch.setenv("XDG_STATE_HOME", os.environ["XDG_STATE_HOME"])
    return run_copy.paths


def command(verb: str, runs: Path, out: Path) -> list[object]:
    """Return the words of a verb that takes many runs."""
    match verb:
        case "export":
            return ["export", "csv", runs, "-o", out / "csv", "--tables", "runs"]
        case "report":
            return ["report", runs, "-o", out / "report", "--no-figures", "--no-pages"]
        case "bundle":
            return ["bundle", runs, "-o", out / "runs.tar.gz", "--allow-names"]
        case _:
            return [verb, runs]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_each_verb_says_the_same_of_a_record(
    state: Callable[[RunPaths], None], run: RunPaths, shell: Shell, tmp_path: Path
) -> None:
    """Of one record alone every verb either works or ends with one exit code, and names it."""
    state(run)
    is_usable = state.__name__ in USABLE_STATES
    found = {}
    for verb in (*MANY, "show", "verify"):
        left = shell(*(command(verb, run.root, tmp_path / verb) if verb in MANY else [verb, run.root]))
        found[verb] = left.code
        assert "Traceback" not in left.err
        assert is_usable or verb not in MANY or run.root.name in left.out + left.err, verb
    expected = dict.fromkeys(found, WHOLE if is_usable else UNUSABLE)
    expected |= {"bundle": 2} if is_usable else {}  # its cases are still secret
    expected |= {"verify": 1} if state in {half_written, cut} else {}
    expected |= {"show": 0} if state is cut else {}  # with what is wrong
    expected |= {"post-hoc": 2} if state is foreign else {}  # the secret isn't here
    expected |= {"show": 2} if state is ghost else {}

    assert found == expected


def test_each_verb_says_the_same_of_a_record_of_the_release(shell: Shell, tmp_path: Path) -> None:
    """A record of the paper's release is shown, diagnosed, ranked and exported; nothing of it is verified or played."""
    root = write_release(tmp_path / "released")
    found = {}
    for verb in (*MANY, "show", "verify", "resume"):
        left = shell(*(command(verb, root, tmp_path / verb) if verb in MANY else [verb, root]))
        found[verb] = left.code
        assert "Traceback" not in left.err

    played = {"bundle": 2, "post-hoc": 2, "resume": 2}
    assert found == dict.fromkeys(found, WHOLE) | played | {"verify": 1}


@pytest.mark.parametrize("state", [older, newer, unreadable, cut, ghost, empty], ids=lambda state: state.__name__)
def test_one_bad_record_stops_nothing_else(
    state: Callable[[RunPaths], None], run: RunPaths, shell: Shell, tmp_path: Path
) -> None:
    """Beside a good run a bad one is listed with its reason, and the verb does its work for the good one."""
    bad = RunPaths(Path(shutil.copytree(run.root, run.root.with_name("20200101-000000-0bad"))))
    state(bad)
    for verb in set(MANY) - {"bundle"}:
        left = shell(*command(verb, run.root.parents[2], tmp_path / verb))

        assert left.code == WHOLE, (verb, left.err)
        assert bad.root.name in (left.err + left.out).replace("\n", ""), verb


@pytest.mark.parametrize(
    "changes",
    [
        {"max_steps": 50},
        {"success": Success(SuccessRule.TERMINATED)},
        {"arguments": {"sutton_barto_reward": True}},
        {"objective": "do nothing"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_rules_are_not_taken_from_the_accused(run: RunPaths, changes: dict[str, Any]) -> None:
    """A record of other rules, with the shipped fingerprint and a chain that fits, is not ranked."""
    opened = evopolicygym.load_run(run.root)
    environment = replace(read_opened(run).task.environment, **changes)
    forge(run, changed(run, RunOpened, task=replace(read_opened(run).task, environment=environment)))
    found = evopolicygym.verify(run.root)
    board = evopolicygym.leaderboard(run.root.parents[2], tables=["anchors"])

    assert opened.score is not None
    assert "task" in found.failed
    assert [problem.root.name for problem in board.problems] == [run.root.name]


def test_a_task_of_ones_own_stands_beside_nothing_that_ships(run: RunPaths, shell: Shell) -> None:
    """A task with a shipped name and other rules keeps its own fingerprint, and our anchors are not called ours."""
    task = read_opened(run).task
    environment = replace(task.environment, max_steps=50)
    own = {"task": replace(task, environment=environment), "spec_sha256": evopolicygym_fingerprint(environment)}
    forge(run, changed(run, RunOpened, **own))
    shown = shell("show", run.root)
    tables = shell("leaderboard", run.root.parents[2], "--tables", "anchors")

    assert "task" not in evopolicygym.verify(run.root).failed
    assert "(ours)" not in shown.out
    rows = [line for line in tables.out.splitlines() if not line.startswith("- ")]
    assert not [line for line in rows if read_opened(run).task.environment.name in line]


def test_states_of_records(run: RunPaths, shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A copy is believed no more than what it is of; elsewhere unverified, verified once revealed, or replayed."""

    def state() -> str:
        found: dict[str, Any] = shell.json("show", run.root)
        return str(found["record"])

    assert state() == "played here"
    shell.printed("reveal", "default", "--runs", run.root.parents[3], "--yes")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "somebody"))
    assert state() == "verified"
    shell.printed("verify", run.root, "--replay", "--workers", "1")
    assert state() == "replayed"
    (run.root.parents[2] / "revealed.json").unlink()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    assert state() == "unverified"


def test_an_entry_tells_the_states_of_its_records(
    run: RunPaths, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Tables, exports and the runs of Python say how far each record is to be believed."""
    below = run.root.parents[2]
    here = evopolicygym.leaderboard(below).document["entries"][0]["records"]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "somebody"))
    elsewhere = evopolicygym.leaderboard(below).document["entries"][0]["records"]

    assert (here, elsewhere) == ({"played here": 1}, {"unverified": 1})
    assert [row.record for row in evopolicygym.load_runs(below).runs] == ["unverified"]


def test_what_verify_sees_is_seen_where_a_run_is_ranked(run: RunPaths) -> None:
    """A hidden episode that was changed after a first look takes the run off the table, whatever was remembered."""
    below = run.root.parents[2]
    before = evopolicygym.leaderboard(below)
    file = next(path for path in sorted(run.evaluation.rglob("*")) if path.is_file())
    file.write_bytes(file.read_bytes() + b" ")
    after = evopolicygym.leaderboard(below, tables=["anchors"])

    assert (len(before.problems), len(after.problems)) == (0, 1)
    assert "evaluation" in evopolicygym.verify(run.root).failed


def read_opened(run: RunPaths) -> RunOpened:
    """Return the first event of a run."""
    from evopolicygym.records.reader import read_run

    return read_run(run.root).state.opened


def evopolicygym_fingerprint(environment: Any) -> str:
    """Return the fingerprint of a spec."""
    from evopolicygym.specs.catalog import spec_sha256

    return spec_sha256(environment)


def test_a_secret_laid_above_a_run_is_not_read(
    run: RunPaths, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shell: Shell
) -> None:
    """Only the experiment's own directory reveals it, and never in place of the user's own secret."""
    identity = read_opened(run).experiment
    laid = json.dumps({"experiment": identity, "secret": "00" * 32, "cases": {}})
    for directory in run.root.parents[:5]:
        (directory / "revealed.json").write_text(laid)

    assert evopolicygym.verify(run.root).ok
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "somebody"))
    assert "commitment" in evopolicygym.verify(run.root).failed
    (run.root.parents[2] / "revealed.json").unlink()
    assert shell.json("show", run.root)["record"] == "unverified"


def test_nothing_is_imported_from_the_present_directory_for_a_stranger(
    run: RunPaths, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Modules of a task of one's own are found in the working directory for one's own runs, or with trust."""
    opened = read_opened(run)
    own = replace(opened.task.environment, name="mine", id="Mine-v0", imports=("a_module_of_nobody",))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_module_of_nobody.py").write_text("")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    mine = replace(opened, task=replace(opened.task, environment=own))

    def is_found(*, trusted: bool) -> bool:
        import_for_record(run.root, mine, trusted=trusted)
        return str(tmp_path) in sys.path

    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", str(tmp_path / "somebody"))
        assert not is_found(trusted=False)
        import_for_record(run.root, opened, trusted=True)  # a task that ships, of whatever record
        assert str(tmp_path) not in sys.path
    assert is_found(trusted=False)
