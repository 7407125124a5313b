"""The index of measurements: it saves work, and never changes what ``diagnose`` says."""

import os
import pickle
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from diagnosed import known_run, recorded
from evopolicygym.analysis import measurement_index
from evopolicygym.analysis.diagnostic import DIAGNOSTICS, Diagnostic
from evopolicygym.analysis.measurement_index import MeasurementIndex, run_key
from evopolicygym.api.read import diagnosis
from evopolicygym.api.read.diagnosis import Diagnosis, diagnose
from evopolicygym.core import directories
from evopolicygym.core.errors import UsageError
from evopolicygym.records import file_stamps
from evopolicygym.records.reader import RunRecord, read_run

pytestmark = pytest.mark.made_up


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take files that were just written for settled."""
    monkeypatch.setattr(file_stamps, "SETTLED_S", -1.0)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a directory of three runs."""
    events = known_run()
    for number in range(3):
        recorded(tmp_path / "runs" / f"r{number}", [replace(events[0], run_id=f"r{number}", seed=number), *events[1:]])
    return tmp_path / "runs"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the runs whose event logs are read from now on."""
    names = list[str]()

    def read(root: Path) -> RunRecord:
        names.append(root.name)
        return read_run(root)

    monkeypatch.setattr(diagnosis, "read_run", read)
    return names


def said(found: Diagnosis) -> tuple[object, str]:
    return found.document, found.to_markdown()


def database() -> Path:
    return directories.cache_directory() / measurement_index.DATABASE


def test_an_index_saves_reading(runs: Path, reads: list[str]) -> None:
    """What was measured once is not measured again, by all diagnostics and by some, and says the same."""
    first = said(diagnose(runs))
    again = said(diagnose(runs))
    some = said(diagnose(runs, ["edits", "budget"]))

    assert reads == ["r0", "r1", "r2"]
    assert again == first
    database().unlink()
    assert some == said(diagnose(runs, ["edits", "budget"]))


def test_further_diagnostics_are_added(runs: Path, reads: list[str]) -> None:
    """A diagnostic that was not measured yet is measured, and those before it stay."""
    diagnose(runs, ["budget"])
    diagnose(runs, ["edits"])
    diagnose(runs, ["edits", "budget"])

    assert len(reads) == 6


def _change_policy(root: Path) -> None:
    """Change a file in place, and give it its old time."""
    file = next((root / "checkpoints").rglob("policy.py"))
    before, text = file.stat(), file.read_text()
    file.write_text(text.replace("1", "7").replace("2", "8"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def _add_file(root: Path) -> None:
    (root / "checkpoints" / "a" / "more.py").write_text("x = 1\n")


def _remove_checkpoint(root: Path) -> None:
    for file in (root / "checkpoints" / "b").iterdir():
        file.unlink()
    (root / "checkpoints" / "b").rmdir()


def _add_post_hoc(root: Path) -> None:
    (root / "post_hoc.json").write_text('{"schema_version": 3, "checkpoints": {}}')


@pytest.mark.parametrize(
    "change",
    [_change_policy, _add_file, _remove_checkpoint, _add_post_hoc],
    ids=lambda each: each.__name__,
)
def test_a_changed_run_is_read_again(runs: Path, reads: list[str], change: Callable[[Path], None]) -> None:
    """Whatever changes in the files of a run, it is measured again, and the others aren't."""
    diagnose(runs)
    reads.clear()
    change(runs / "r1")
    found = said(diagnose(runs))

    assert reads == ["r1"]
    database().unlink()
    assert found == said(diagnose(runs))


def test_code_is_part_of_the_key(runs: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What other code measured is measured again."""
    diagnose(runs)
    monkeypatch.setattr(measurement_index, "code_key", lambda: b"another version")
    diagnose(runs)

    assert len(reads) == 6


def test_fresh_files_are_not_kept(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose files were just written has no key: a change within the clock's step could go unnoticed."""
    monkeypatch.setattr(file_stamps, "SETTLED_S", 3600.0)
    diagnose(runs)

    assert run_key(runs / "r0") is None
    assert not database().exists()


def _overwrite(file: Path) -> None:
    file.write_bytes(b"no database " * 1000)


def _truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _empty(file: Path) -> None:
    os.truncate(file, 0)


def _other_table(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DROP TABLE runs")
        connection.execute("CREATE TABLE runs (other)")


def _changed_content(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE runs SET content = zeroblob(100)")


def _swapped_rows(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        (first, other) = connection.execute("SELECT key, digest, content FROM runs LIMIT 2").fetchall()
        connection.execute("UPDATE runs SET digest = ?, content = ?", first[1:])
        assert first != other


@pytest.mark.parametrize(
    "damage",
    [_overwrite, _truncate, _empty, _other_table, _changed_content, _swapped_rows],
    ids=lambda each: each.__name__,
)
def test_a_damaged_index_is_no_error(runs: Path, damage: Callable[[Path], None]) -> None:
    """Whatever happened to an index, the runs are measured, and soon there is an index again."""
    first = said(diagnose(runs))
    damage(database())

    assert said(diagnose(runs)) == first
    assert said(diagnose(runs)) == first
    assert said(diagnose(runs)) == first


def test_an_index_names_no_code(runs: Path, tmp_path: Path) -> None:
    """An entry that would call something when it is read is not read."""

    class Caller:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "called",)

    first = said(diagnose(runs))
    content = pickle.dumps(Caller())
    with closing(sqlite3.connect(database())) as connection, connection:
        for name, key in connection.execute("SELECT root, key FROM runs").fetchall():
            root = Path(os.fsdecode(bytes.fromhex(name)))
            digest = measurement_index._digest(root, key, content)
            connection.execute("UPDATE runs SET digest = ?, content = ? WHERE root = ?", (digest, content, name))

    assert said(diagnose(runs)) == first
    assert not (tmp_path / "called").exists()


def _no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise UsageError("no home")

    monkeypatch.setattr(directories, "cache_directory", fail)


def _file_in_place(_: pytest.MonkeyPatch) -> None:
    directories.cache_directory().write_text("")


def _directory_in_place(_: pytest.MonkeyPatch) -> None:
    database().mkdir(parents=True)


@pytest.mark.parametrize(
    "prevent", [_no_directory, _file_in_place, _directory_in_place], ids=lambda each: each.__name__
)
def test_no_index_is_no_error(
    runs: Path, prevent: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no index can be written, the runs are measured each time."""
    prevent(monkeypatch)

    assert said(diagnose(runs)) == said(diagnose(runs))


@pytest.mark.parametrize("limit", ["max_page_count = 1", "query_only = 1"])
def test_an_index_that_takes_nothing_is_no_error(runs: Path, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a full or a read-only disk, the runs are measured each time."""
    diagnose(runs, ["budget"])
    first, connect, limited = said(diagnose(runs, ["edits"])), sqlite3.connect, list[sqlite3.Connection]()

    def connect_limited(file: Path, **options: Any) -> sqlite3.Connection:
        connection = connect(file, **options)
        if file == database():  # and not coverage's own
            connection.execute(f"PRAGMA {limit}")
            limited.append(connection)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_limited)
    (runs / "r0" / "run.json").touch()
    with_old = said(diagnose(runs, ["edits"]))
    database().unlink()

    assert limited
    assert [with_old, said(diagnose(runs, ["edits"])), said(diagnose(runs, ["edits"]))] == [first] * 3


def test_another_process_writes(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process holds the index, the runs are measured and nothing is kept."""
    first = said(diagnose(runs))
    monkeypatch.setattr(measurement_index, "BUSY_S", 0.01)
    (runs / "r0" / "run.json").touch()
    with closing(sqlite3.connect(database())) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert said(diagnose(runs)) == first
        other.rollback()
    assert said(diagnose(runs)) == first


def test_several_at_once(runs: Path) -> None:
    """Any number of readers and writers at once say the same."""
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: said(diagnose(runs)), range(8)))

    assert found == [found[0]] * 8
    with MeasurementIndex() as index:
        assert index.read(runs / "r0", run_key(runs / "r0")) is not None


def test_other_diagnostics_are_measured_each_time(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A diagnostic of another distribution is never taken from the index, even under a name of ours."""
    diagnose(runs, ["budget"])
    calls = list[str]()
    ours = DIAGNOSTICS.load("budget")

    def measure(record: RunRecord) -> object:
        calls.append(record.paths.root.name)
        return ours.measure(record)

    monkeypatch.setattr(type(DIAGNOSTICS), "load", lambda *_: Diagnostic(measure, ours.table, ours.summary))
    diagnose(runs, ["budget"])
    diagnose(runs, ["budget"])

    assert calls == ["r0", "r1", "r2"] * 2
