"""Evolution as data: from the tables alone one sees what an agent read, what it changed, and what came of it."""

import base64
import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from evopolicygym.records.checkpoints import checkpoint_name
from page_blocks import blocks
from places import ROOT
from shell import Shell

RESULTS = ROOT / "results"
FEW = (
    RESULTS / "examples" / "outside" / "parking",
    RESULTS / "references" / "reference" / "reacher",
    RESULTS / "baselines" / "policy" / "acrobot",
)
"""A run of thirteen checkpoints, one of one, and some whose weights are no text."""
GIT = shutil.which("git") or "git"
if not RESULTS.is_dir():
    pytest.skip("the checkout has no shipped results", allow_module_level=True)


def lines(directory: Path, table: str) -> list[dict[str, Any]]:
    """Return a table that was exported as JSON lines."""
    return [json.loads(line) for line in (directory / f"{table}.jsonl").read_text(encoding="utf-8").splitlines()]


def contents(files: str) -> dict[str, bytes]:
    """Return the files of a cell."""
    known = json.loads(files)
    return {
        path: text.encode() if isinstance(text, str) else base64.b64decode(text["base64"])
        for path, text in known.items()
    }


def on_disk(directory: Path) -> dict[str, bytes]:
    """Return the files below a directory."""
    files = (file for file in directory.rglob("*") if file.is_file())
    return {file.relative_to(directory).as_posix(): file.read_bytes() for file in files}


def name_of(files: dict[str, bytes]) -> str:
    """Return the name of the checkpoint that has these files."""
    return checkpoint_name({path: (len(data), sha256(data).hexdigest()) for path, data in files.items()})


@pytest.mark.parametrize(
    "places", [pytest.param(FEW, id="few"), pytest.param((RESULTS,), id="all", marks=pytest.mark.nightly)]
)
def test_every_checkpoint_is_rebuilt_from_edits(places: tuple[Path, ...], tmp_path: Path, shell: Shell) -> None:
    """Whatever checkpoint a record has, its files stand in the table, byte by byte, under the name that they make."""
    shell.printed("export", "jsonl", *places, "-o", tmp_path / "out", "--tables", "edits")
    roots = {log.parent.name: log.parent for place in places for log in place.rglob("journal.jsonl")}
    rows = [row for row in lines(tmp_path / "out", "edits") if row["files"]]
    rebuilt = {(row["run_id"], row["checkpoint"]): contents(row["files"]) for row in rows}
    shipped = {
        (run, checkpoint.name): on_disk(checkpoint)
        for run, root in roots.items()
        for checkpoint in (root / "checkpoints").iterdir()
    }

    assert len(shipped) >= 13
    assert rebuilt == shipped
    assert {name: name_of(files) for (_, name), files in rebuilt.items()} == {name: name for _, name in rebuilt}


def test_what_the_parent_was_comes_before(tmp_path: Path, shell: Shell) -> None:
    """The files before are those of the parent's row, and the diff leads from them to its own, as Git reads it."""
    shell.printed("export", "jsonl", FEW[0], "-o", tmp_path / "out", "--tables", "edits")
    rows = lines(tmp_path / "out", "edits")
    own = {row["submission"]: row["files"] for row in rows}
    for row in rows:
        place = tmp_path / str(row["submission"])
        for path, data in contents(row["files_before"]).items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(data)
        if row["diff"]:
            subprocess.run([GIT, "apply", "-"], cwd=place, input=row["diff"].encode(), check=True)
        assert on_disk(place) == contents(row["files"])
        assert row["parent"] == -1 or row["files_before"] == own[row["parent"]]


def test_edits_are_what_is_diagnosed(shell: Shell) -> None:
    """``diagnose`` and the table of edits know one and the same of a submission."""
    (root,) = FEW[0].iterdir()
    (run,) = shell.json("diagnose", root, "--only", "edits")["runs"]
    edits = evopolicygym.load_run(root).to_pandas("edits")

    assert len(run["edits"]["submissions"]) == len(edits) == 14
    for told in run["edits"]["submissions"]:
        row = edits.iloc[told["submission"]].to_dict()
        assert {name: row[name] for name in told if told[name] is not None} == {
            name: value for name, value in told.items() if value is not None
        }


def test_a_submission_has_its_files(tmp_path: Path) -> None:
    """Python gets the files, the parent and the changes to any other submission."""
    (root,) = FEW[0].iterdir()
    run = evopolicygym.load_run(root)
    chosen = run.submissions[run.selected_submission or 0]
    assert chosen.files is not None
    (tmp_path / "policy.py").write_bytes(chosen.files["policy.py"])

    assert name_of(dict(chosen.files)) == chosen.checkpoint == chosen["checkpoint"]
    assert chosen.diff() == chosen.diff(chosen.parent) == run.edits[chosen.submission].diff
    assert chosen.diff(chosen.submission) == ""
    assert chosen.diff(-1).startswith("diff --git a/")
    assert asdict(chosen) == dict(chosen)
    assert (chosen.feedback, chosen.messages) == (None, [])  # which the shipped record lacks
    for unknown in (14, "policy.py"):
        with pytest.raises(evopolicygym.errors.UsageError, match=f"submission {unknown!r}"):
            chosen.diff(unknown)  # type: ignore[arg-type] # what a newcomer may pass


def test_the_page_makes_training_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    """The blocks of docs/use/data.md make pairs, examples and rewards of the shipped records, in ten lines each."""
    page = "docs/use/data.md"
    headings = [place for place, line in enumerate((ROOT / page).read_text().splitlines()) if line.startswith("## ")]
    first = (ROOT / page).read_text().splitlines().index("## Evolution as data")
    last = headings[headings.index(first) + 1]
    programs = [block for block in blocks(page) if first < block.line < last and block.language == "python"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "read_evolution", raising=False)
    places = (FEW[0], FEW[0].parent / "Humanoid-v5")
    shell.printed("export", "jsonl", *places, "-o", "evolution", "--tables", "tasks,edits")
    names: dict[str, Any] = {}
    for block in programs:
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        else:
            exec(block.text, names)  # noqa: S102 - the page's own code

    assert [len([line for line in block.text.splitlines() if line]) <= 10 for block in programs] == [True] * 4
    assert {pair["prompt"].splitlines()[0] for pair in names["pairs"]} == {"# Task: Humanoid-v5"}
    assert all(pair["chosen"] != pair["rejected"] for pair in names["pairs"])
    assert [turn["role"] for turn in names["examples"][0]["messages"]] == ["system", "user", "assistant"]
    assert "\n\ndiff --git a/" in names["examples"][0]["messages"][2]["content"]
    assert max(row["reward"] for row in names["rewards"]) == pytest.approx(1, abs=0.1)
