"""What an audit found, in the viewer and in a report: in the ranking, and on a run's page with links."""

import csv
import json
from pathlib import Path

import pytest
from test_viewer_groups import write_run

from evopolicygym.records.paths import RunPaths
from evopolicygym.viewer.documents import documents
from evopolicygym.viewer.site.serving import ServedViewer
from labelled_conduct import transcript_of
from shell import Shell
from viewed import asked, kept_documents

pytestmark = pytest.mark.made_up

INSTALL = transcript_of([("Bash", {"command": "ls"}), ("Bash", {"command": "pip install gymnasium"})])


def write_transcript(paths: RunPaths, text: str) -> None:
    paths.logs.mkdir(exist_ok=True)
    paths.transcript.write_text(text, encoding="utf-8")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Write runs of an agent with a serious finding, of one that can't be read, and of one that calls no model."""
    below = tmp_path / "runs"
    write_transcript(write_run(below / "serious", "claude_code"), INSTALL)
    write_transcript(write_run(below / "unread", "command"), "some words\n")
    write_run(below / "clean", "tuner")
    return below


def test_three_states_of_a_run(runs: Path) -> None:
    """Audited with its findings, not to be read with the reason, and of a run that isn't finished nothing."""
    paths = write_run(runs / "open", "claude_code", seed=3)
    paths.journal.write_bytes(b"".join(paths.journal.read_bytes().splitlines(keepends=True)[:4]))
    paths.document.unlink()
    with ServedViewer([runs]) as viewer:
        names = {place.id: place.root.name for place in viewer.documents.index.directories().values()}
        found = asked(viewer, "/data/audit.json").document["runs"]
    states = {names[run]: (one["state"], one["counts"]["serious"], bool(one["why"])) for run, one in found.items()}

    assert states == {"serious": ("audited", 1, False), "unread": ("unread", 0, True), "clean": ("audited", 0, False)}


def test_a_finding_leads_to_its_message_or_submission(runs: Path) -> None:
    """What is in the transcript names the byte where its message begins; what is in a policy, its first submission."""
    paths = RunPaths(runs / "serious")
    (paths.checkpoint("b") / "policy.py").write_text(
        "from urllib.request import urlopen\n\nurlopen('https://example.org')\n"
    )
    with ServedViewer([runs]) as viewer:
        (run,) = (place.id for place in viewer.documents.index.directories().values() if place.root.name == "serious")
        found = asked(viewer, f"/data/run/{run}/audit.json").document
    places = {(one["grade"], one["submission"], one["transcript_at"]) for one in found["findings"]}

    assert found["state"] == "audited"
    assert places == {("serious", 4, INSTALL.index("\n") + 1), ("look", 1, None)}


def test_a_leaderboard_waits_for_no_audit(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leaderboard and the list of runs audit nothing; then each run is audited once until it changes."""
    audited = list[Path]()
    audit = documents.audit_run

    def counted(record, detectors):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - as the original
        audited.append(record.paths.root)
        return audit(record, detectors)

    monkeypatch.setattr(documents, "audit_run", counted)
    with ServedViewer([runs]) as viewer:
        for name in ("runs", "suite", "task/toy"):
            asked(viewer, f"/data/{name}.json")
        before = len(audited)
        (run,) = (place.id for place in viewer.documents.index.directories().values() if place.root.name == "clean")
        for name in ("audit", f"run/{run}/audit", "audit"):
            asked(viewer, f"/data/{name}.json")
        once = len(audited)
        write_transcript(RunPaths(runs / "serious"), INSTALL + INSTALL)
        asked(viewer, "/data/audit.json")

    assert (before, once, len(audited)) == (0, 3, 4)
    assert audited[-1].name == "serious"


def test_a_report_has_the_audit(runs: Path, tmp_path: Path, shell: Shell) -> None:
    """Its table has each entry's findings and what couldn't be read, the ranking says both, and its pages have it."""
    shell.printed("report", runs, "-o", tmp_path / "report", "--no-figures")
    tables = tmp_path / "report" / "tables"
    with (tables / "conduct.csv").open(encoding="utf-8") as file:
        rows = {
            row["entry"]: [row[name] for name in ("runs_audited", "runs_not_read", "serious")]
            for row in csv.DictReader(file)
        }
    notes = json.loads((tables / "leaderboard.json").read_text(encoding="utf-8"))["notes"]
    kept = kept_documents(tmp_path / "report")

    assert rows == {"claude_code": ["1", "0", "1"], "command": ["0", "1", "0"], "tuner": ["1", "0", "0"]}
    assert [[name for name in rows if name in note] for note in notes[:2]] == [["claude_code"], ["command"]]
    assert sorted(one["state"] for one in kept["audit"]["runs"].values()) == ["audited", "audited", "unread"]
    assert sum(name.endswith("/audit") and name.startswith("run/") for name in kept) == 3


def test_all_tables_say_what_the_audit_found(runs: Path, tmp_path: Path, shell: Shell) -> None:
    """Serious findings, and what could not be read, stand under a ranking and a comparison, here and in a report."""
    shell.printed("report", runs, "-o", tmp_path / "report", "--no-figures", "--no-pages")
    documents = {
        "leaderboard": shell.json("leaderboard", runs, "--audit"),
        "compare": shell.json("compare", "claude_code", "command", runs, "--audit"),
        "report": json.loads((tmp_path / "report" / "tables" / "leaderboard.json").read_text(encoding="utf-8")),
    }
    said = {name: tuple(document["notes"][:2]) for name, document in documents.items()}
    compared = json.loads((tmp_path / "report" / "tables" / "compare.json").read_text(encoding="utf-8"))
    names = {compared["first"], compared["second"]}

    assert set(said.values()) == {said["leaderboard"]}
    assert ["claude_code (1 in 1 of 1 run)" in said["compare"][0], "command (1 of 1 run)" in said["compare"][1]] == [
        True
    ] * 2
    assert [note for note in said["leaderboard"] if any(name in note for name in names)] == [
        note for note in compared["notes"] if note in said["leaderboard"]
    ]
    assert not set(said["leaderboard"]) & set(shell.json("compare", "claude_code", "command", runs)["notes"])
    assert "tuner (1 run)" in shell.json("compare", "tuner", "command", runs, "--audit")["notes"][1]
