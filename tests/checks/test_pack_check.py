"""The check of a pack: what each task is held to, and that each rule can fail."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import own_pack
from evopolicygym.checks import pack_trial
from evopolicygym.checks.pack import check
from evopolicygym.checks.pack_trial import children_seconds
from evopolicygym.core.errors import SandboxError, UnknownName
from evopolicygym.sandbox.bwrap import bwrap


@pytest.fixture
def _pack(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        bwrap()
    except SandboxError as error:
        pytest.skip(str(error))
    own_pack.lay(monkeypatch)


@pytest.mark.usefixtures("_pack")
@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("Littering-v0", "litter.xml"),
        ("Forgetful-v0", "repeat"),
        ("Calling-v0", "Network is unreachable"),  # the kernel's words
        ("Wide-v0", "space"),
    ],
)
def test_what_is_wrong_is_found(task: str, why: str) -> None:
    """A task that breaks a rule fails, with the reason."""
    (found,) = check(own_pack.NAME, [task])

    assert not found.ok
    assert why in found.detail


@pytest.mark.usefixtures("_pack")
def test_a_task_that_is_well() -> None:
    """What keeps all rules passes, with its speed and the mean of random play."""
    (found,) = check(own_pack.NAME, ["Far-v0"])

    assert (found.ok, found.more["repeats"], found.more["left"]) == (True, True, [])
    assert found.more["random_mean"] == 3.0
    assert found.more["idle_mean"] == 0.0
    assert found.more["episode_seconds"] > 0
    assert found.more["memory_mb"] > 0


@pytest.mark.usefixtures("_pack")
def test_a_task_that_there_is_not() -> None:
    """A task's name that is unknown is said, with those that are known."""
    with pytest.raises(UnknownName, match="Far-v0"):
        list(check(own_pack.NAME, ["Farr-v0"]))


@pytest.mark.nightly
@pytest.mark.usefixtures("_pack")
def test_a_check_goes_on_where_it_stood(tmp_path: Path) -> None:
    """What has passed is not played again, and what failed is; both stand in the file."""
    file = tmp_path / "checks" / "far.json"
    first = list(check(own_pack.NAME, ["Far-v0", "Forgetful-v0"], file))
    before = file.read_text(encoding="utf-8")
    file.write_text(before.replace('"random_mean": 3.0', '"random_mean": 77.0'), encoding="utf-8")
    again = list(check(own_pack.NAME, ["Far-v0", "Forgetful-v0"], file))

    assert [one.ok for one in first] == [one.ok for one in again] == [True, False]
    assert [one.more["random_mean"] for one in again] == [77.0, 3.0]
    assert [one["name"] for one in json.loads(file.read_text())["tasks"]] == ["Far-v0", "Forgetful-v0"]


@pytest.mark.nightly
@pytest.mark.usefixtures("_pack")
def test_a_record_of_other_versions_is_made_anew(tmp_path: Path) -> None:
    """What was played on other versions counts for nothing."""
    file = tmp_path / "far.json"
    list(check(own_pack.NAME, ["Far-v0"], file))
    text = file.read_text(encoding="utf-8").replace('"evopolicygym": "', '"evopolicygym": "0.0.')
    file.write_text(text.replace('"random_mean": 3.0', '"random_mean": 77.0'), encoding="utf-8")
    (found,) = check(own_pack.NAME, ["Far-v0"], file)

    assert found.more["random_mean"] == 3.0


def test_whose_time_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The time of each process that any thread has started counts, the system's part of it too."""
    ticks = os.sysconf("SC_CLK_TCK")
    for place, content in {
        "self/task/1/children": "11 12 ", "self/task/2/children": "13 ", "self/task/3/children": "",
        "11/stat": f"11 (a) b) S 1 {'0 ' * 9}{2 * ticks} {ticks} 0", "13/stat": f"13 (c) R 1 {'0 ' * 9}{ticks} 0 0",
        "14/stat": f"14 (d) R 1 {'0 ' * 9}{ticks} 0 0",
    }.items():  # fmt: skip
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(content)
    monkeypatch.setattr(pack_trial, "PROCESSES", tmp_path)

    assert children_seconds() == 4


@pytest.mark.nightly
def test_the_time_of_an_engine_of_its_own() -> None:
    """A process that a simulator has started counts as long as it runs."""
    burning = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass\nprint()\ninput()"]
    before = children_seconds()
    with subprocess.Popen(burning, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        engine.stdout.readline()
        during = children_seconds()
        engine.communicate(b"\n")

    assert during - before >= 0.15
