"""Pushing exports to a hub: nothing without a word, private unless asked, and what lies there can be read.

The hub is a stand-in on the loopback; Hugging Face's own client talks to it, where there is no other network.
"""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from evopolicygym.core.errors import UsageError
from evopolicygym.export.hub import repository_of, tasks_upload
from exported import recorded
from fakes import opening, submitted
from no_network import without_network
from places import SUPPORT
from shell import Shell

pytestmark = pytest.mark.made_up

EVERY_TABLE = ["episodes.parquet", "runs.parquet", "steps.parquet", "submissions.parquet"]
PUSH = ("--push-to", "hub:me/runs")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run without recorded steps."""
    recorded(tmp_path / "runs" / "odd", [opening(run_id="odd"), *submitted(0, [1.0, 3.0])])
    return tmp_path / "runs"


def beside_a_hub(place: Path, *command: object, has: str = "") -> dict[str, Any]:
    """Return what a command printed, and what the hub holds after it."""
    home = {"HOME": str(place), "HF_HOME": str(place / "hf"), "HUB_HAS": has, "COLUMNS": "120"}
    setting = [word for name, value in home.items() for word in ("--setenv", name, value)]
    line = [*without_network(), *setting, sys.executable, SUPPORT / "hub_stand_in.py", *command]
    done = subprocess.run([*map(str, line)], capture_output=True, text=True, check=True)
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def export(place: Path, runs: Path, *words: object, has: str = "") -> dict[str, Any]:
    program = [sys.executable, "-m", "evopolicygym", "export", "parquet", runs, "-o", place / "data"]
    return beside_a_hub(place, *program, *words, has=has)


def test_without_a_word_nothing_is_uploaded(run: Path, tmp_path: Path) -> None:
    """The files, their sizes, the repository and who sees it are shown, and the hub isn't asked anything."""
    found = export(tmp_path, run, *PUSH)

    assert (found["code"], found["asked"]) == (0, []), found["err"]
    assert [name in found["out"] for name in (*EVERY_TABLE, "README.md")] == [True] * 5
    assert [word in found["out"] for word in ("private", "me/runs", "--yes")] == [True] * 3


@pytest.mark.nightly
def test_the_tables_are_uploaded(run: Path, tmp_path: Path) -> None:
    """With --yes they lie in a private data set, each as it was written, with a card that has a config for each."""
    found = export(tmp_path, run, *PUSH, "--yes")
    card = found["files"].pop("README.md")

    assert found["code"] == 0, found["err"]
    assert found["private"] == {"me/runs": True}
    assert "Bearer hf_of_nobody" in found["tokens"]
    assert sorted(found["files"]) == EVERY_TABLE
    for name, content in found["files"].items():
        assert content.encode("latin-1") == (tmp_path / "data" / name).read_bytes()
        assert f"  data_files: {name}\n" in card
    assert card.startswith("---\n")
    assert card.count("config_name") == 4
    assert parquet.read_table(io.BytesIO(found["files"]["runs.parquet"].encode("latin-1"))).num_rows == 1


@pytest.mark.nightly
def test_a_card_that_was_edited_is_kept(run: Path, tmp_path: Path) -> None:
    """What its user wrote goes to the hub, and only the tables that were asked for."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "README.md").write_text("---\nlicense: mit\n---\nMine.\n", encoding="utf-8")
    found = export(tmp_path, run, *PUSH, "--yes", "--force", "--tables", "runs", "--json")
    push = json.loads(found["out"])["push"]

    assert sorted(found["files"]) == ["README.md", "runs.parquet"]
    assert "Mine." in found["files"]["README.md"]
    assert (push["repository"], push["private"]) == ("me/runs", True)
    assert push["uploaded"].endswith(f"/datasets/me/runs/commit/{'0' * 40}")


@pytest.mark.nightly
def test_a_public_repository_takes_no_private_upload(run: Path, tmp_path: Path) -> None:
    """Where the data set is there and public, nothing is uploaded unless --public says so."""
    refused = export(tmp_path, run, *PUSH, "--yes", has="me/runs")
    allowed = export(tmp_path, run, *PUSH, "--yes", "--public", "--force", has="me/runs")

    assert (refused["code"], refused["files"]) == (2, {})
    assert "--public" in refused["err"]
    assert (allowed["code"], len(allowed["files"])) == (0, 5), allowed["err"]


@pytest.mark.nightly
def test_a_hub_that_is_not_there(run: Path, tmp_path: Path) -> None:
    """It is said which repository was not taken, and why; the files stay."""
    address = ["env", "HF_ENDPOINT=http://127.0.0.1:9"]
    program = [sys.executable, "-m", "evopolicygym", "export", "parquet", run, "-o", tmp_path / "data"]
    found = beside_a_hub(tmp_path, *address, *program, *PUSH, "--yes")

    assert found["code"] == 1
    assert "me/runs" in found["err"]
    assert (tmp_path / "data" / "runs.parquet").is_file()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("parquet", "--push-to", "me/runs"), "hub:OWNER/NAME"),
        (("parquet", "--push-to", "hub:../runs"), "hub:OWNER/NAME"),
        (("csv", "--push-to", "hub:me/runs"), "parquet"),
        (("parquet", "--yes"), "--push-to"),
        (("parquet", "--public"), "--push-to"),
    ],
)
def test_what_can_not_be_pushed(words: tuple[str, ...], why: str, run: Path, tmp_path: Path, shell: Shell) -> None:
    """It is refused before anything is written."""
    name, *options = words
    left = shell("export", name, run, "-o", tmp_path / "data", *options)

    assert (left.code, why in left.err) == (2, True), left.err
    assert not (tmp_path / "data").exists()


def test_tasks_are_a_data_set(tmp_path: Path) -> None:
    """Every file of every Harbor task is in the plan, with a registry that lists the tasks; links are not followed."""
    for name in ("acrobot", "reacher"):
        (tmp_path / name / "environment").mkdir(parents=True)
        (tmp_path / name / "task.toml").write_text('schema_version = "1.4"\n', encoding="utf-8")
        (tmp_path / name / "environment" / "Dockerfile").write_text("FROM scratch\n", encoding="utf-8")
    (tmp_path / "notes").mkdir()
    (tmp_path / "reacher" / "secret").symlink_to("/etc/hostname")
    upload = tasks_upload(tmp_path, "me/tasks", "https://example.invalid/datasets/me/tasks")
    (registry,) = json.loads((tmp_path / "registry.json").read_text(encoding="utf-8"))

    assert [one.path_in_repo for one in upload.files] == [
        "tasks/acrobot/environment/Dockerfile",
        "tasks/acrobot/task.toml",
        "tasks/reacher/environment/Dockerfile",
        "tasks/reacher/task.toml",
        "registry.json",
        "README.md",
    ]
    assert upload.is_private
    assert [(one["name"], one["path"]) for one in registry["tasks"]] == [
        ("acrobot", "tasks/acrobot"),
        ("reacher", "tasks/reacher"),
    ]
    assert {one["git_url"] for one in registry["tasks"]} == {"https://example.invalid/datasets/me/tasks"}


def test_a_directory_without_tasks_is_refused(tmp_path: Path) -> None:
    """The message says what a task is known by."""
    with pytest.raises(UsageError, match=r"task\.toml"):
        tasks_upload(tmp_path, "me/tasks", "https://example.invalid")

    assert repository_of("hub:me/tasks") == "me/tasks"
