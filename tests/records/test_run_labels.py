"""Names, tags and notes stand beside a run; what is no such file is no label."""

from pathlib import Path

import pytest

from diagnosed import known_run, recorded
from evopolicygym.core.errors import UsageError
from evopolicygym.records.labels import RunLabels, change_labels, labels_path, read_labels, write_labels
from shell import Shell


def test_labels_are_kept_beside_a_run(tmp_path: Path) -> None:
    """What was written is read, outside of the run's directory; empty labels leave no file."""
    run = tmp_path / "run"
    run.mkdir()
    labels = change_labels(RunLabels("old", ("a", "b")), "new", ["c", "a"], ["b"], None)
    write_labels(run, labels)

    assert (read_labels(run), list(run.iterdir())) == (RunLabels("new", ("a", "c")), [])
    write_labels(run, change_labels(labels, "", (), ["a", "c"], None))
    assert not labels_path(run).exists()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"name": 1, "tags": [], "note": ""}', '{"name": "x"}', "[" * 50000])
def test_what_is_no_label_is_none(tmp_path: Path, text: str) -> None:
    """A file of another form gives no labels, and nor does a link."""
    labels_path(tmp_path / "run").write_text(text)
    write_labels(tmp_path / "other", RunLabels("x"))
    labels_path(tmp_path / "link").symlink_to(labels_path(tmp_path / "other"))

    assert read_labels(tmp_path / "run") == read_labels(tmp_path / "link") == RunLabels()


@pytest.mark.parametrize("labels", [{"name": "x" * 101}, {"tags": (" ",)}, {"tags": ("x" * 41,)}, {"note": "x" * 4001}])
def test_labels_are_short(labels: dict[str, str]) -> None:
    """Texts that are too long, and empty tags, are refused."""
    with pytest.raises(UsageError):
        RunLabels(**labels)  # type: ignore[arg-type] # tags are


def test_a_run_is_labelled_by_command(shell: Shell, tmp_path: Path) -> None:
    """What is given is added to what there was, and shown; a text that is too long changes nothing."""
    recorded(tmp_path / "runs" / "a", known_run())
    record = read_all(tmp_path / "runs" / "a")
    shell.json("label", tmp_path / "runs" / "a", "--name", "first", "--tag", "x", "--tag", "y")
    labels = shell.json("label", tmp_path / "runs" / "a", "--untag", "x", "--note", "slow")
    refused = shell("label", tmp_path / "runs" / "a", "--name", "x" * 101)
    shown = shell.printed("show", tmp_path / "runs" / "a")

    assert labels == {"name": "first", "tags": ["y"], "note": "slow"}
    assert (refused.code, read_labels(tmp_path / "runs" / "a").name) == (2, "first")
    assert "first; y; slow" in shown
    assert record == read_all(tmp_path / "runs" / "a")


def read_all(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
