"""Killed before and after every single write of a run and resumed, it ends with the same record."""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dying import play_toy, take_up_toy
from evopolicygym.records.paths import RunPaths
from moments import CALLS, WatchedDisk, lived, played_on
from places import ROOT
from sameness import assert_the_same

MOMENTS = 2 * sum(CALLS.values())
SLICES = 6
SAMPLE_STEP = 31
"""Every so manieth moment is tried each time; by and by odd and even ones, so before and after a write."""
TWICE = random.Random(11)  # noqa: S311 - no secret


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the record of the fake's run, as it ends when nobody dies."""
    root = tmp_path_factory.mktemp("toy") / "run"
    play_toy(root)
    return root


class OrderedDisk(WatchedDisk):
    """A disk that looks, after every call, at what an agent could read by now, and what is on disk for good."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.early: list[str] = []
        """Submissions whose feedback could be read before the event that records it was flushed."""
        self.shown: set[str] = set()
        self._paths = RunPaths(root)

    def call(self, name: str, really: Callable[..., Any], *arguments: Any) -> Any:
        result = super().call(name, really, *arguments)
        journal = self._paths.journal
        flushed = journal.read_bytes()[: self.flushed.get(journal.name, 0)] if journal.is_file() else b""
        lines = [json.loads(line)["event"] for line in flushed.splitlines() if b"submission_published" in line]
        recorded = {self._paths.published_feedback(line["submit_index"]).name for line in lines}
        for directory in self._paths.feedback.glob("submit_*"):
            self.shown.add(directory.name)
            self.early += [] if directory.name in recorded else [directory.name]
        return result


def test_nothing_is_shown_before_its_event_is_on_disk(tmp_path: Path) -> None:
    """At every moment of a run, feedback that can be read belongs to an event that is flushed."""
    disk = OrderedDisk(tmp_path / "run")
    played_on(disk, play_toy, tmp_path / "run")

    assert (disk.early, len(disk.shown) > 2) == ([], True)


def test_no_write_slips_past(tmp_path: Path) -> None:
    """As many writes as are counted here pass the one place; a new one would change the number."""
    disk = WatchedDisk()
    played_on(disk, play_toy, tmp_path / "run")

    assert Counter(disk.calls) == CALLS


def test_nothing_else_reaches_the_disk_for_good() -> None:
    """No other code of the project flushes, renames or links files of a record but by that one place."""
    source = ROOT / "src" / "evopolicygym"
    calls = ("os.fsync", "os.fdatasync", "os.pwrite", "os.rename", "os.replace", "os.link")
    words = (*calls, ".hardlink_to(", ".rename(", ".replace(t")
    # A node's scratch, what is exported, the kernel's numbers of processes, an agent's own copy of its feedback, packs
    # that are installed, what simulators said of themselves, which they are asked again where it's lost, and anchors.
    no_record = {
        "rollout/cluster/node.py",
        "rollout/guest/pid_namespace.py",
        "runs/workspace.py",
        "api/play/harbor.py",
        "environments/description.py",
        "packs/installer.py",
        "specs/measured_anchors.py",
    }
    allowed = {"records/atomic.py", *no_record}
    found = {
        f"{path.relative_to(source)}: {line.strip()}"
        for path in source.rglob("*.py")
        if str(path.relative_to(source)) not in allowed and not path.is_relative_to(source / "export")
        for line in path.read_text(encoding="utf-8").splitlines()
        for word in words
        if word in line and "atomic." not in line
    }

    assert found == set()


@pytest.mark.parametrize("first", range(0, 2 * SAMPLE_STEP, SAMPLE_STEP))
def test_death_at_a_sample_of_moments(tmp_path: Path, undisturbed: Path, first: int) -> None:
    """Killed at moments spread over the whole run, before and after writes, it ends with the same record."""
    moments = [str(moment) for moment in range(first, MOMENTS, 2 * SAMPLE_STEP)]
    lived(tmp_path / "lives", *moments)

    for moment in moments:
        assert_the_same(tmp_path / "lives" / moment, undisturbed)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(SLICES))
def test_death_at_every_moment(tmp_path: Path, undisturbed: Path, first: int) -> None:
    """Killed before and after every write of the run in turn, it ends with the same record."""
    moments = [str(moment) for moment in range(first, MOMENTS, SLICES)]
    lived(tmp_path / "lives", *moments)

    for moment in moments:
        assert_the_same(tmp_path / "lives" / moment, undisturbed)


def test_there_is_no_moment_after_the_last(tmp_path: Path) -> None:
    """The moments end with the run: at a later one nobody dies, and that would be noticed."""
    with pytest.raises(AssertionError, match=f"there is no moment {MOMENTS}"):
        lived(tmp_path / "lives", str(MOMENTS))


@pytest.mark.parametrize(
    "lives", [["0,0,1,2", "30,3,9", "150,0,1,12"], pytest.param(["many"], marks=pytest.mark.nightly)]
)
def test_death_while_it_is_taken_up(tmp_path: Path, undisturbed: Path, lives: list[str]) -> None:
    """Killed again while it is resumed, and once more, a run still ends with the same record."""
    if lives == ["many"]:
        lives = [f"{moment},{TWICE.randrange(8)},{TWICE.randrange(8)}" for moment in range(0, MOMENTS - 40, 7)]
    lived(tmp_path / "lives", *lives)

    for life in lives:
        assert_the_same(tmp_path / "lives" / life, undisturbed)


def test_taking_up_what_is_finished_changes_nothing(undisturbed: Path, tmp_path: Path) -> None:
    """A run that is finished is the same after it was resumed."""
    root = tmp_path / "run"
    play_toy(root)
    before = RunPaths(root).journal.read_bytes(), RunPaths(root).document.read_bytes()
    take_up_toy(root)

    assert before == (RunPaths(root).journal.read_bytes(), RunPaths(root).document.read_bytes())
    assert_the_same(root, undisturbed)
