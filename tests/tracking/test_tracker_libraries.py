"""Each tracker's own library keeps a run, without a network, and its own reader finds it again.

`make test-trackers` installs the libraries and runs these; where one is not installed, its test says so.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.records.reader import find_runs, read_run
from no_network import without_network

pytestmark = pytest.mark.nightly
SIZES = ["--budget", "8", "--validation", "2", "--held-out", "3", "--split", "public", "--isolation", "process"]
LATE, PARTS = "it had not ended", 4
"""What is said of a tracker that a busy machine lets no time, and how often it is asked to go on."""
Played = Callable[[str], Path]


@pytest.fixture
def played(tmp_path: Path) -> Played:
    """Return what plays a run with a tracker on a machine without a network, and returns the run's directory."""

    def played(tracker: str) -> Path:
        pytest.importorskip(tracker, reason=f"{tracker} is not installed; `make test-trackers` installs it")
        tracked = ["--track", tracker, "--json"]
        printed = typed(tmp_path, "run", "cartpole", "--agent", "random_search", *SIZES, *tracked)
        for _ in range(PARTS):
            if LATE not in printed.stderr:
                break
            printed = typed(tmp_path, "resume", "latest", *tracked)
        logs = "".join(file.read_text(encoding="utf-8") for file in tmp_path.rglob(".tracking/*.log"))
        assert "tracker" not in printed.stderr, printed.stderr + logs
        assert json.loads(printed.stdout)["stage"] == "finished"
        (root,) = find_runs(tmp_path / "runs")
        return root

    return played


def typed(place: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Return what the program printed where there is no network, and none of the user's settings of a tracker."""
    home = {"HOME": str(place / "home"), "TRACKIO_DIR": str(place / "trackio")}
    chosen = ("WANDB_", "MLFLOW_", "TRACKIO_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(chosen)}
    done = subprocess.run(
        [*without_network(), sys.executable, "-m", "evopolicygym", *words],
        cwd=place,
        env={**environment, **home},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def expected(root: Path) -> dict[str, list[tuple[int, float]]]:
    """Return what a tracker should hold of a run: each name's values by episodes spent."""
    state = read_run(root).state
    assert state.finished
    spent = [state.budget - one.remaining_budget for one in state.submissions]
    means = [sum(one.returns) / len(one.returns) for one in state.submissions]
    validation = [sum(one.returns) / len(one.returns) for one in state.hidden[: len(spent)]]
    assert state.finished.score is not None
    return {
        "mean_return": list(zip(spent, means, strict=True)),
        "best_so_far": [(step, max(means[: place + 1])) for place, step in enumerate(spent)],
        "validation_mean_return": list(zip(spent, validation, strict=True)),
        "held_out_score": [(state.spent, state.finished.score)],
    }


def assert_same(kept: dict[str, list[tuple[int, float]]], root: Path) -> None:
    for name, points in expected(root).items():
        assert sorted(set(kept[name])) == [(step, pytest.approx(value, rel=1e-6)) for step, value in sorted(points)], (
            name
        )


def test_tensorboard(played: Played) -> None:
    """TensorBoard's accumulator reads the scalars, and the configuration is its hyperparameters."""
    root = played("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(root.parents[3] / ".tracking" / "tensorboard" / root.name))
    found.Reload()
    kept = {name: [(one.step, one.value) for one in found.Scalars(name)] for name in found.Tags()["scalars"]}

    assert_same(kept, root)
    assert b"random_search" in found.summary_metadata["_hparams_/session_start_info"].plugin_data.content


def test_trackio(played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trackio's own storage has the points and the configuration, on this machine."""
    root = played("trackio")
    program = (
        "import json; from trackio import Api; from trackio.sqlite_storage import SQLiteStorage as kept\n"
        "(run,) = Api().runs('evopolicygym')\n"
        "print(json.dumps([run.name, run.config, kept.get_logs('evopolicygym', run.name)]))"
    )
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    name, config, logs = json.loads(done.stdout.splitlines()[-1])
    kept: dict[str, list[tuple[int, float]]] = {}
    for point in logs:
        for key, value in point.items():
            kept.setdefault(key, []).append((point["step"], value))

    assert_same(kept, root)
    assert root.name in name
    assert (config["task"], config["budget"]) == ("cartpole", 8)


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # MLflow's own use of SQLAlchemy
def test_mlflow(played: Played) -> None:
    """MLflow's client finds the run in the local database, finished, with its metrics and parameters."""
    root = played("mlflow")
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{root.parents[3] / '.tracking' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("evopolicygym")
    (run,) = client.search_runs([experiment.experiment_id])
    names = run.data.metrics
    kept = {name: [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, name)] for name in names}

    assert_same(kept, root)
    assert (run.info.status, run.data.tags["status"]) == ("FINISHED", "scored")
    assert run.data.params["agent"] == "random_search"


def test_wandb(played: Played) -> None:
    """The offline run holds the points by their step and the configuration, and nothing of the machine."""
    root = played("wandb")
    files = sorted((root.parents[3] / ".tracking" / "wandb").glob(f"offline-run-*/run-{root.name}.wandb"))
    records = [record for file in files for record in wandb_records(file)]
    kept: dict[str, list[tuple[int, float]]] = {}
    for record in records:
        point = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        for key, value in point.items():
            kept.setdefault(key, []).append((point["episodes_spent"], value))
    run, *_ = (record.run for record in records if record.HasField("run"))
    config = {item.key: json.loads(item.value_json) for item in run.config.update}

    assert_same(kept, root)
    assert (run.run_id, config["task"], config["agent"]) == (root.name, "cartpole", "random_search")
    assert (run.host, run.git.remote_url) == ("", "")
    assert not [record for record in records if record.HasField("stats") or record.HasField("output_raw")]


def wandb_records(file: Path) -> Iterator[Any]:
    """Yield the library's own records of a run's file: a LevelDB log, in blocks of 32 KiB, behind a header of seven."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, whole = file.read_bytes(), 7, b""
    while place + 7 <= len(content):
        left = -place % 32768
        if left < 7:
            place += left
            continue
        length, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        whole += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in {1, 4}:
            yield Record.FromString(whole)
            whole = b""
