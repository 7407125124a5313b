"""Bundles from strangers: what they would make of the disk is bounded, and no file lies where no check looks."""

import errno
import gzip
import hashlib
import json
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from archives import Files, files_of, with_index, write
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import RecordError, StorageError
from evopolicygym.records.bundle import INDEX, MAX_RATIO, extract, unpack
from whole_runs import config, played, state_kept_in

EMPTY = hashlib.sha256().hexdigest()


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle of a public run."""
    place = tmp_path_factory.mktemp("packed")
    with state_kept_in(place / "state"):
        played(config(place / "runs", "random", 1, isolation="none", split=SplitSource.PUBLIC, experiment="board"))
        return evopolicygym.bundle(place / "runs", place / "board.tar.gz").file


@pytest.fixture
def into(tmp_path: Path) -> Iterator[Path]:
    """Yield an empty directory to unpack into, which is empty again afterwards."""
    (tmp_path / "into").mkdir()
    yield tmp_path / "into"
    assert list((tmp_path / "into").iterdir()) == []


def _with(files: Files, added: Files) -> Files:
    """Return a bundle's files and others, which its index lists."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in added.items()}
    return {**with_index(files, lambda index: index["files"].update(hashes)), **added}


def _run(packed: Path) -> str:
    run: str = json.loads(files_of(packed)[INDEX])["runs"][0]["path"]
    return run


def test_directories_that_cost_nothing(packed: Path, into: Path, tmp_path: Path) -> None:
    """An archive of a few kB that would make thousands of directories is refused before one is made."""
    run = _run(packed)
    added = {"/".join((run, *(f"{number}" for _ in range(10)), "f")): b"" for number in range(3000)}
    file = write(tmp_path / "many.tar.gz", _with(files_of(packed), added))

    with pytest.raises(RecordError, match="directories"):
        extract(file, into)


@pytest.mark.parametrize(
    "name",
    ["/".join("d" * 12), "d" * 256, "\N{LATIN SMALL LETTER E WITH ACUTE}" * 128, "a\0b", "a\nb", "a/../b"],
    ids=["deep", "long", "long in bytes", "NUL", "newline", "above"],
)
def test_paths_that_are_not_valid(name: str, packed: Path, into: Path, tmp_path: Path) -> None:
    """A path that is too deep, has a part that no file system holds, or isn't printable is refused."""
    files = _with(files_of(packed), {f"{_run(packed)}/{name}": b""})

    with pytest.raises(RecordError, match="refused"):
        extract(write(tmp_path / "invalid.tar.gz", files), into)


def test_a_compressed_byte_that_becomes_thousands(packed: Path, into: Path, tmp_path: Path) -> None:
    """A file of zeros is refused before anything is written; a bundle of a run is far below the ratio."""
    added = {f"{_run(packed)}/logs/agent.log": bytes(50_000_000)}
    file = write(tmp_path / "zeros.tar.gz", _with(files_of(packed), added))
    real = len(gzip.decompress(packed.read_bytes())) / packed.stat().st_size

    assert real < MAX_RATIO / 5
    with pytest.raises(RecordError, match="too many for its size"):
        extract(file, into)


@pytest.mark.parametrize(
    "path",
    ["ghost/run.json", "runs/board/ghost/cartpole/20260101-000000-abcd/run.json", "runs/board/revealed.txt",
     "runs/other/experiment.json", "experiment.json", "runs/board/Random/journal.jsonl", "README", "runs"],
)  # fmt: skip
def test_files_that_belong_to_no_run(path: str, packed: Path, into: Path, tmp_path: Path) -> None:
    """A ghost, which has a run.json and no event log, and any other file outside of the listed runs is refused."""
    file = write(tmp_path / "ghost.tar.gz", _with(files_of(packed), {path: b"{}"}))

    with pytest.raises(RecordError, match=r"belongs to no run|directory"):
        extract(file, into)


@pytest.mark.parametrize(
    ("path", "why"),
    [("logs/inner/journal.jsonl", "within a run"), ("RUN.JSON", "case"), ("run.json/more", "both a file")],
)
def test_files_within_a_run(path: str, why: str, packed: Path, into: Path, tmp_path: Path) -> None:
    """Neither a run within a run, a name that differs in case only, nor a file in the place of a directory."""
    file = write(tmp_path / "inner.tar.gz", _with(files_of(packed), {f"{_run(packed)}/{path}": b""}))

    with pytest.raises(RecordError, match=why):
        extract(file, into)


@pytest.mark.parametrize("path", ["runs/board/Random/20260101-000000-abcd", "runs/board", "../up/a/b/c", "/a/b/c/d/e"])
def test_a_run_that_is_elsewhere(path: str, packed: Path, into: Path, tmp_path: Path) -> None:
    """A run lies at runs/EXPERIMENT/AGENT/TASK/ID, whatever the list says."""
    run = _run(packed)

    def change(index: dict[str, Any]) -> None:
        index["files"] = {name.replace(run, path): value for name, value in index["files"].items()}
        index["runs"][0]["path"] = path

    moved = {name.replace(run, path): content for name, content in files_of(packed).items()}
    with pytest.raises(RecordError, match="refused"):
        extract(write(tmp_path / "moved.tar.gz", with_index(moved, change)), into)


def test_an_experiment_of_another_name(packed: Path, into: Path, tmp_path: Path) -> None:
    """The experiment's own file has to name the identity that the list has for it."""
    text = b'{"experiment": "another"}\n'
    file = write(tmp_path / "other.tar.gz", _with(files_of(packed), {"runs/board/experiment.json": text}))

    with pytest.raises(RecordError, match="is not the run"):
        extract(file, into)


def test_a_full_disk_while_unpacking(packed: Path, into: Path) -> None:
    """It is an error of storage, not of the bundle, and nothing stays."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        with pytest.raises(StorageError, match=r"(?i)TMPDIR") as raised:
            extract(packed, into)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.errno == errno.EFBIG


def test_a_refusal_leaves_nothing(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory of temporary files is as it was, whenever the bundle is found to be changed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    files = files_of(packed)
    last = max(name for name in files if name != INDEX)
    for number, changed in enumerate(({**files, last: b"changed"}, _with(files, {"ghost/run.json": b"{}"}))):
        file = write(tmp_path / f"{number}.tar.gz", changed)
        with pytest.raises(RecordError):
            unpack(file)
        file.unlink()

    assert list(tmp_path.iterdir()) == []
