"""Files of the tables: other programs read back what the record holds, and nothing is overwritten unasked."""

import base64
import csv
import io
import json
import math
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from evopolicygym.analysis.run_tables import Runs, load_runs
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.errors import MissingExtra, RecordError, UnknownName, UsageError
from evopolicygym.core.text import printable
from evopolicygym.export.exporters import EXPORTERS, export
from evopolicygym.records.rows import STEPS, TABLES, ColumnSchema, ValueKind, columns
from exported import fields, film, recorded, small_run
from fakes import opening, submitted, whole_run
from made_up import opened
from shell import Shell
from simulators import spec
from whole_runs import Told, state_kept_in

pytestmark = pytest.mark.made_up

HOSTILE = '=cmd|"/C calc"!A0, ../../..\nnext\r\n\tétoile'
PEAK = """
import re, sys
from pathlib import Path
from evopolicygym.export.exporters import EXPORTERS, export
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1))
EXPORTERS.load("parquet")
before = peak()
from evopolicygym.records.checked import open_runs
export("parquet", open_runs([Path(sys.argv[1])]).runs, Path(sys.argv[2]))
print(peak() - before)
"""


@pytest.fixture(scope="module")
def runs(cartpole_run: Told, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where runs lie: on numbers, on values of every kind with a failed episode, not scored, not finished."""
    place = tmp_path_factory.mktemp("export")
    shutil.copytree(cartpole_run.paths.root, place / "runs" / "cartpole")
    with state_kept_in(place / "state"):
        small_run(place / "runs", spec("Composite"), "players:make_composer")
    recorded(place / "runs" / "odd", [opening(run_id="odd"), *submitted(0, [math.nan, -math.inf])])
    return place / "runs"


@pytest.fixture(scope="module")
def loaded(runs: Path) -> Runs:
    """Return the tables of these runs."""
    return load_runs(runs)


@pytest.fixture(scope="module")
def parquet_files(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where their Parquet lies."""
    directory = tmp_path_factory.mktemp("parquet")
    export("parquet", opened(runs), directory)
    return directory


def rows(loaded: Runs, table: str) -> list[dict[str, Any]]:
    """Return a table's rows as plain values that can be compared, NaN included."""
    found = getattr(loaded, table)
    found = list(found()) if callable(found) else found
    return [{name: plain(value) for name, value in fields(row).items()} for row in found]


def plain(value: Any) -> Any:
    """Return a cell as what can be compared bit for bit."""
    match value:
        case float():
            return value.hex()
        case None | str() | bool() | int():
            return value
        case _ if hasattr(value, "tzinfo"):
            return value.replace(tzinfo=None)
        case _:
            return [float(one).hex() for one in value]


@pytest.mark.parametrize("table", TABLES)
def test_parquet_is_what_the_record_is(loaded: Runs, parquet_files: Path, table: str) -> None:
    """Each cell is read back by pyarrow as it was, bit for bit, and each column tells its meaning and its unit."""
    found = parquet.read_table(parquet_files / f"{table}.parquet")
    told = [
        ColumnSchema(
            one.name,
            known.kind,
            one.nullable,
            (one.metadata or {}).get(b"unit", b"").decode(),
            one.metadata[b"description"].decode(),
        )
        for one, known in zip(found.schema, columns(TABLES[table]), strict=True)
    ]

    assert rows(loaded, table) == [{name: plain(v) for name, v in row.items()} for row in found.to_pylist()]
    assert columns(TABLES[table]) == tuple(told)


def test_duckdb_reads_parquet(loaded: Runs, parquet_files: Path) -> None:
    """DuckDB joins and sums the files, and comes to the record's returns."""
    steps, episodes = (duckdb.read_parquet(str(parquet_files / f"{table}.parquet")) for table in (STEPS, "episodes"))
    sums = duckdb.sql(
        "SELECT run_id, episode, fsum(reward), any_value(episode_return) FROM steps "
        "JOIN episodes USING (run_id, episode) GROUP BY run_id, episode"
    ).fetchall()

    assert (len(steps), len(episodes)) == (len(rows(loaded, STEPS)), len(loaded.episodes))
    assert {(step.run_id, step.episode) for step in loaded.steps()} == {(run, episode) for run, episode, *_ in sums}
    assert all(total == pytest.approx(expected) for *_, total, expected in sums)


def test_pandas_reads_parquet(loaded: Runs, parquet_files: Path) -> None:
    """pandas reads every table with as many rows, and the same times."""
    frames = {table: pd.read_parquet(parquet_files / f"{table}.parquet") for table in TABLES}

    assert [len(rows(loaded, table)) for table in TABLES] == [len(frame) for frame in frames.values()]
    assert [one.opened_at.replace(tzinfo=None) for one in loaded.runs] == frames["runs"].opened_at.tolist()


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["parquet", "jsonl"])
def test_datasets_reads_tables(loaded: Runs, runs: Path, tmp_path: Path, name: str) -> None:
    """Hugging Face's ``datasets`` reads each table, with the columns and types that are declared."""
    datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")
    out, cache = tmp_path / name, str(tmp_path / "cache")
    export(name, opened(runs), out)
    types = {ValueKind.INTEGER: "int64", ValueKind.NUMBER: "float64", ValueKind.BOOLEAN: "bool"}
    for table in TABLES:
        declared = columns(TABLES[table])
        if name == "parquet":
            file = str(out / f"{table}.parquet")
            found = datasets.load_dataset("parquet", data_files=file, split="train", cache_dir=cache)
        else:
            found = datasets.load_dataset(str(out), table, split="train", cache_dir=cache)

        assert found.num_rows == len(rows(loaded, table))
        assert list(found.features) == [column.name for column in declared]
        assert {column.name: found.features[column.name].dtype for column in declared if column.kind in types} == {
            column.name: types[column.kind] for column in declared if column.kind in types
        }


@pytest.mark.parametrize("name", ["parquet", "jsonl", "csv"])
def test_pictures_are_pictures(tmp_path: Path, name: str) -> None:
    """Each format holds a picture as a PNG: Parquet its bytes, texts Base64; and the shape of its numbers."""
    film(tmp_path / "run", 2, 12)
    export(name, opened(tmp_path / "run"), tmp_path / "out", [STEPS])
    read = {"parquet": pd.read_parquet, "jsonl": lambda file: pd.read_json(file, lines=True), "csv": pd.read_csv}[name]
    cells = read(tmp_path / "out" / f"steps.{name}")[["observation_picture", "observation_shape"]].to_numpy().tolist()
    steps = list(load_runs(tmp_path / "run").steps())
    found = [cell["bytes"] if name == "parquet" else base64.b64decode(cell) for cell, _ in cells]

    assert found == [step.observation_picture for step in steps]
    assert [shape for _, shape in cells] == ["[12,12,3]"] * 2


@pytest.mark.nightly
def test_datasets_shows_pictures(tmp_path: Path) -> None:
    """Hugging Face's ``datasets`` decodes them from Parquet by itself."""
    datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")
    film(tmp_path / "run", 2, 12)
    export("parquet", opened(tmp_path / "run"), tmp_path / "out", [STEPS])
    files, cache = str(tmp_path / "out" / "steps.parquet"), str(tmp_path / "cache")
    found = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=cache)

    assert [np.asarray(row["observation_picture"]).ravel().tolist() for row in found] == [
        row["observation"] for row in found
    ]


@pytest.mark.parametrize("table", TABLES)
def test_csv_is_what_the_record_is(loaded: Runs, runs: Path, tmp_path: Path, table: str) -> None:
    """Each cell of a CSV stands for the record's value, numbers bit for bit."""
    export("csv", opened(runs), tmp_path, [table])
    with (tmp_path / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    read = {
        ValueKind.INTEGER: int,
        ValueKind.NUMBER: lambda text: float(text).hex(),
        ValueKind.BOOLEAN: {"true": True, "false": False}.__getitem__,
        ValueKind.NUMBERS: lambda text: [float(one).hex() for one in json.loads(text)],
        ValueKind.TIME: lambda text: pd.Timestamp(text).tz_localize(None).to_pydatetime(),
        ValueKind.TEXT: lambda text: text.removeprefix("'"),
        ValueKind.JSON: str,
    }
    kinds = {one.name: one.kind for one in columns(TABLES[table])}

    assert [{name: read[kinds[name]](text) if text else None for name, text in row.items()} for row in found] == rows(
        loaded, table
    )


def test_failed_episodes_say_why(loaded: Runs) -> None:
    """An episode whose policy failed has its reason and the policy's own words."""
    failed = [one for one in loaded.episodes if one.failure and one.split == "train"]

    assert [(one.failure, "=1+1" in (one.failure_message or "")) for one in failed] == [("error", True)]


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_hostile_names_stay_text(tmp_path: Path, name: str) -> None:
    """A name that is a path, a formula or several lines is one cell, and no file lies where it points to."""
    recorded(tmp_path / "in" / "run", [opening(run_id="../r", agent=AgentConfig(HOSTILE, model="=1+1"))])
    export(name, opened(tmp_path / "in"), tmp_path / "out" / "deep")
    read = pd.read_csv if name == "csv" else pd.read_parquet
    frame = read(tmp_path / "out" / "deep" / f"runs.{name}")

    mark = "'" if name == "csv" else ""
    found = list(zip(frame.agent_kind, frame.model, frame.run_id, strict=True))
    assert found == [(mark + printable(HOSTILE), f"{mark}=1+1", "../r")]
    assert {"in", "out", "state"} >= {path.name for path in tmp_path.iterdir()}


def test_nothing_is_overwritten_unasked(runs: Path, tmp_path: Path) -> None:
    """A directory that holds something is refused; with force, an export's files are replaced and others stay."""
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="--force"):
        export("csv", opened(runs), tmp_path)
    export("csv", opened(runs), tmp_path, [STEPS], force=True)
    export("csv", opened(runs), tmp_path, ["runs"], force=True)

    assert {"mine.txt", "runs.csv", "state"} >= {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_failed_export_leaves_no_file(tmp_path: Path) -> None:
    """Where a record turns out to be broken, nothing lies there that could be taken for an export."""
    paths = film(tmp_path / "run", 3, 12)
    (paths.train_episode(0, 0) / "trajectory.jsonl").write_text("{")
    for name in ("parquet", "csv"):
        with pytest.raises(RecordError):
            export(name, opened(paths.root), tmp_path / name, list(TABLES))

        assert list((tmp_path / name).iterdir()) == []


def test_what_can_not_be_had_is_refused(runs: Path, tmp_path: Path) -> None:
    """Unknown formats and tables are named with those that there are, and a directory without runs is none."""
    with pytest.raises(UnknownName, match="minari, parquet"):
        export("xlsx", opened(runs), tmp_path / "a")
    with pytest.raises(UnknownName, match="steps"):
        export("csv", opened(runs), tmp_path / "b", ["step"])
    with pytest.raises(UsageError, match=re.escape(str(tmp_path))):
        opened(tmp_path)


@pytest.mark.parametrize(("name", "missing"), [("parquet", "pyarrow"), ("minari", "minari")])
def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, name: str, missing: str) -> None:
    """Without the extra, a format says what installs it."""
    monkeypatch.delitem(sys.modules, f"evopolicygym.export.formats.{name}", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtra, match=r"evopolicygym\[data\]"):
        EXPORTERS.load(name)


def test_rows_are_written_group_by_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long an episode is, no more than a bound of its pictures is in one group of rows."""
    film(tmp_path / "run", 10, 24)  # of 1,728 numbers a picture
    monkeypatch.setattr("evopolicygym.export.formats.parquet.MOST_BYTES", 3 * 24 * 24 * 3 * 8)
    export("parquet", opened(tmp_path / "run"), tmp_path / "out", [STEPS])
    groups = parquet.ParquetFile(tmp_path / "out" / "steps.parquet").metadata

    assert [groups.row_group(place).num_rows for place in range(groups.num_row_groups)] == [3, 3, 3, 1]


@pytest.mark.nightly
def test_films_are_not_held_whole(tmp_path: Path) -> None:
    """A thousand pictures of 96 by 96, which are 221 MB of numbers, are exported within 200 MiB."""
    film(tmp_path / "run", 1000, 96)
    ask = [sys.executable, "-c", PEAK, str(tmp_path / "run"), str(tmp_path / "out")]
    left = subprocess.run(ask, capture_output=True, text=True, timeout=300, check=False)

    assert left.returncode == 0, left.stderr
    assert int(left.stdout) < 200 * 1024
    assert parquet.ParquetFile(tmp_path / "out" / "steps.parquet").metadata.num_rows == 1000


def test_a_label_joins_two_csvs(tmp_path: Path, shell: Shell) -> None:
    """What the table of runs calls an agent is what the leaderboard calls its entry, in CSV too."""
    labels = ["=1+1", '-fast, "two"', "+1", "plain", "two\nlines"]
    for place, label in enumerate(labels):
        first, *others = whole_run()
        opened = replace(first, run_id=f"run{place}", seed=place, agent=AgentConfig("scripted", label=label))
        recorded(tmp_path / "runs" / str(place), [opened, *others])
    shell.printed("export", "csv", tmp_path / "runs", "-o", tmp_path / "out", "--tables", "runs")
    with (tmp_path / "out" / "runs.csv").open(newline="", encoding="utf-8") as file:
        agents = {row["agent"] for row in csv.DictReader(file)}
    board = csv.DictReader(io.StringIO(shell.printed("leaderboard", tmp_path / "runs", "--format", "csv")))

    assert len(agents) == len(labels)
    assert {row["entry"] for row in board if row["repeats"]} >= agents
