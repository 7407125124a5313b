"""Regular files: opened where they are some, refused by name where a link, pipe, socket, directory or too much lies."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError
from hostile_records import KINDS, Outside, a_link, a_sparse_file, deep_json

pytestmark = pytest.mark.needs_root

OTHER_KINDS = [kind for kind in KINDS if kind not in {a_sparse_file, deep_json}]


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outside:
    """Return what must not be reached; names of sockets are short, as the test is in its own directory."""
    monkeypatch.chdir(tmp_path)
    outside = Outside(tmp_path / "outside")
    outside.lay()
    return outside


@pytest.mark.parametrize("kind", OTHER_KINDS)
@pytest.mark.parametrize("ask", [regular_file.reader, regular_file.appender, regular_file.is_there])
def test_what_is_no_regular_file_is_refused(
    tmp_path: Path, outside: Outside, kind: Callable[[Path, Outside], None], ask: Callable[[Path], object]
) -> None:
    """Whatever stands in place of a file is named, and neither followed nor waited for, to read as to write."""
    kind(tmp_path / "run.json", outside)
    before = outside.found()

    with pytest.raises(RecordError, match=r"run\.json"):
        ask(tmp_path / "run.json")
    assert outside.found() == before


def test_no_directory_on_the_way_is_a_link(tmp_path: Path, outside: Outside) -> None:
    """A file below a linked directory is not the record's."""
    (tmp_path / "logs").symlink_to(outside.root / "private")

    with pytest.raises(RecordError, match=r"logs .*link"):
        regular_file.read(tmp_path / "logs" / "key", 100, tmp_path)
    with pytest.raises(RecordError):
        regular_file.read(tmp_path / "logs" / ".." / "key", 100, tmp_path)


def test_no_more_is_read_than_allowed(tmp_path: Path, outside: Outside) -> None:
    """A file that claims 30 GB is refused by its size, and one of as many bytes as allowed is read."""
    a_sparse_file(tmp_path / "run.json", outside)
    (tmp_path / "outside" / "small.json").write_bytes(b"12")

    with pytest.raises(RecordError, match=r"32,212,254,720 bytes.*\b2\b"):
        regular_file.read(tmp_path / "run.json", 2)
    with pytest.raises(RecordError):
        next(regular_file.below(tmp_path))  # before anybody reads it
    assert regular_file.read(tmp_path / "outside" / "small.json", 2) == b"12"


def test_a_file_that_holds_more_than_it_says_is_refused() -> None:
    """What grows while it is read is read no further than allowed: the kernel's files claim to be empty."""
    with pytest.raises(RecordError):
        regular_file.read(Path("/proc/self/status"), 10)


def test_what_is_not_there_is_not_there(tmp_path: Path) -> None:
    """An absent file is told apart from one that is something else, and made where somebody appends."""
    assert not regular_file.is_there(tmp_path / "logs" / "agent.log", tmp_path)
    with regular_file.appender(tmp_path / "agent.log") as file:
        file.write(b"first")
    with regular_file.appender(tmp_path / "agent.log") as file:
        assert file.tell() == len(b"first")
    assert regular_file.is_there(tmp_path / "agent.log")


def test_a_tree_holds_files_and_directories_alone(tmp_path: Path, outside: Outside) -> None:
    """All files below a directory are found, however deep; a link among them is refused."""
    deep = tmp_path / "tree" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "c").write_bytes(b"123")

    assert list(regular_file.below(tmp_path / "tree")) == [(deep / "c", 3)]
    a_link(deep / "data", outside)
    with pytest.raises(RecordError, match=r"data .*link"):
        list(regular_file.below(tmp_path / "tree"))
    assert os.path.lexists(deep / "data")
