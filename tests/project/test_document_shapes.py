"""The documents that programs read keep their shape: run.json, events, replies of the judge, ``--json`` of verbs.

A shape is the list of a document's keys with the kinds of their values; short words (statuses, names of splits) stay as
they are. ``pytest tests/project/test_document_shapes.py --snapshot-update`` rewrites the snapshots after a change that
was meant.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from asking import ask, submit
from evopolicygym.cli.main import app
from fakes import RunMaker
from played_runs import PlayedRun

WORD = re.compile(r"[a-z]+(_[a-z]+)*")
NAMED = re.compile(r"[a-z0-9_ ]*[a-z_][a-z0-9_ ]*")
"""Keys that are names of fields; other keys (ids, paths, numbers) are data."""


MACHINES = ("findings", "isolation", "level")
"""Keys whose words depend on the machine."""


UNCERTAINTIES = ("interval", "_cover", "_covers", "standard_error", "profile.low", "profile.high")
"""Ends of keys that are null where a run's returns happen to be equal."""


def shape(value: Any, path: str = "") -> Iterator[str]:
    """Yield each place of a JSON document with the kind of value that is there."""
    if path.endswith(UNCERTAINTIES):
        yield f"{path}: an uncertainty or null"
        return
    match value:
        case dict() if not value or path.endswith(".findings"):
            yield f"{path}: {{}}"
        case dict():
            for key, part in value.items():
                yield from shape(part, f"{path}.{key if NAMED.fullmatch(key) else '*'}")
        case list() if not value:
            yield f"{path}: []"
        case list():
            for part in value:
                yield from shape(part, f"{path}[]")
        case str() if WORD.fullmatch(value) and not path.rstrip("[]").endswith(MACHINES):
            yield f"{path}: {value}"
        case bool():
            yield f"{path}: bool"
        case None:
            yield f"{path}: null"
        case int() | float():
            yield f"{path}: number"
        case _:
            yield f"{path}: text"


def shape_of(document: Any) -> list[str]:
    """Return a document's shape, each line once and sorted."""
    return sorted(set(shape(document)))


def printed_json(*arguments: object) -> Any:
    """Return the JSON that a command prints."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    return json.loads(result.stdout)


def test_run_json(played_run: PlayedRun, snapshot: SnapshotAssertion) -> None:
    """The run.json of a whole run."""
    assert shape_of(json.loads(played_run.paths.document.read_bytes())) == snapshot


def test_events(played_run: PlayedRun, snapshot: SnapshotAssertion) -> None:
    """Every kind of event in the event log of a whole run."""
    lines = map(json.loads, played_run.paths.journal.read_text(encoding="utf-8").splitlines())
    assert sorted({f"{line['event']['kind']} {place}" for line in lines for place in shape(line["event"])}) == snapshot


@pytest.mark.usefixtures("at_home")
@pytest.mark.parametrize("verb", ["show", "verify", "diagnose", "leaderboard", "audit"])
def test_verbs_over_a_run(verb: str, played_run: PlayedRun, snapshot: SnapshotAssertion) -> None:
    """What verbs print of a run as JSON."""
    assert shape_of(printed_json(verb, played_run.paths.root, "--json")) == snapshot


@pytest.mark.parametrize("verb", ["agents", "environments", "packs", "suites"])
def test_listings(verb: str, snapshot: SnapshotAssertion) -> None:
    """What listings print as JSON."""
    assert shape_of(printed_json(verb, "--json")) == snapshot


def test_replies_of_the_judge(new_run: RunMaker, snapshot: SnapshotAssertion) -> None:
    """Every reply over HTTP."""
    run = new_run()
    played = submit(run, {"env_instances": "0-2", "hypothesis": "a guess"})
    run.write_policy("import_error")
    replies = {
        "submit": played,
        "submit a broken policy": submit(run, {"env_instances": [1]}),
        "submit without cases": submit(run, {"env_instances": []}),
        "info": ask(run, "GET", "/info"),
        "submissions": ask(run, "GET", "/submissions"),
        "submission": ask(run, "GET", "/submissions/0"),
        "policy": ask(run, "GET", "/submissions/0/policy"),
        "restore": ask(run, "POST", "/submissions/0/restore", {}),
        "check": ask(run, "POST", "/check", {}),
        "frames": ask(run, "GET", "/submissions/0/frames?episode=0&steps=0"),
        "finish": ask(run, "POST", "/finish", {}),
        "unknown": ask(run, "GET", "/nothing"),
    }
    assert {name: [reply.status_code, *shape_of(reply.json())] for name, reply in replies.items()} == snapshot
