"""A disk that is full, read-only or failing at any write: nothing is played uncharged, nothing charged is lost."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from dying import play_toy, take_up_toy
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.errors import RecordError, RequestRefused, StorageError
from evopolicygym.core.event import RunStopped, StopReason
from evopolicygym.core.rollout import Episode, EpisodeJob, Rollout
from evopolicygym.core.run import RunState
from evopolicygym.core.submission import LoadError
from evopolicygym.core.task import PolicyContext
from evopolicygym.records import atomic
from evopolicygym.records.atomic import Disk
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import find_runs
from evopolicygym.runs import run as runs
from fakes import FakeExecutor
from moments import CALLS, FailingDisk, WatchedDisk, played_on
from places import SUPPORT
from sameness import assert_the_same, told
from whole_runs import config, events, played

CODES = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)
WRITES = sum(CALLS.values())
SAMPLE_STEP = 17
REFUSED, STOPPED = "refused", "stopped"


class Auditor(FakeExecutor):
    """Plays nothing of which the charge is not on disk."""

    def __init__(self, paths: RunPaths, disk: WatchedDisk) -> None:
        super().__init__()
        self._paths = paths
        self._disk = disk

    def load(self, checkpoint: Path, context: PolicyContext) -> LoadError | None:
        self._demand_charged(context)
        return super().load(checkpoint, context)

    def play(
        self,
        rollouts: Sequence[Rollout],
        repeated: Callable[[Rollout, EpisodeJob, str], None],
    ) -> Iterator[tuple[Rollout, EpisodeJob, Episode]]:
        for rollout in rollouts:
            self._demand_charged(rollout.context)
        return super().play(rollouts, repeated)

    def _demand_charged(self, context: PolicyContext) -> None:
        lines = self._paths.journal.read_bytes()[: self._disk.flushed["journal.jsonl"]].splitlines()
        told = [json.loads(line)["event"] for line in lines]
        charged = [one["submit_index"] for one in told if one["kind"] == "submission_charged"]
        assert context.submit_index in charged, "played before its charge was on disk"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the record of the fake's run, as it ends on a good disk."""
    root = tmp_path_factory.mktemp("toy") / "run"
    play_toy(root)
    return root


def played_through(root: Path, disk: FailingDisk) -> list[str]:
    """Play the fake's run on a disk that fails; it is mended whenever that shows. Return how it showed."""
    shown = []

    def refused(refusal: RequestRefused) -> None:
        assert (refusal.http_status, refusal.status) == (503, "unavailable")
        if "stopped" in str(refusal):
            raise refusal
        shown.append(REFUSED)
        disk.broken = False

    for _ in range(2):
        try:
            played_on(disk, lambda place: take_up_toy(place, Auditor(RunPaths(place), disk), refused), root)
        except (OSError, RecordError, RequestRefused, StorageError):
            shown.append(STOPPED)
            disk.broken = False
        else:
            break
    return shown


def assert_survived(root: Path, undisturbed: Path, number: int, code: int, *, lasting: bool) -> str:
    """Have a disk fail at one write; return how that showed."""
    shown = played_through(root, FailingDisk(number, code, lasting=lasting))

    assert len(shown) == 1, f"write {number} failed and it showed so: {shown}"
    assert_the_same(root, undisturbed)
    return shown[0]


@pytest.mark.parametrize("lasting", [True, False])
def test_a_disk_that_fails_at_a_sample_of_writes(tmp_path: Path, undisturbed: Path, lasting: bool) -> None:  # noqa: FBT001
    """Whichever write fails, for once or until it is mended: refused or stopped, and the same record in the end."""
    shown = {
        assert_survived(tmp_path / str(number), undisturbed, number, CODES[number % len(CODES)], lasting=lasting)
        for number in range(int(lasting), WRITES, SAMPLE_STEP)
    }

    assert shown == {REFUSED, STOPPED}


@pytest.mark.nightly
@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
@pytest.mark.parametrize("lasting", [True, False])
def test_a_disk_that_fails_at_every_write(tmp_path: Path, undisturbed: Path, code: int, lasting: bool) -> None:  # noqa: FBT001
    """So it is at every write of the run, however the disk fails."""
    for number in range(WRITES):
        assert_survived(tmp_path / str(number), undisturbed, number, code, lasting=lasting)


class CuttingFailsToo(FailingDisk):
    """A disk that doesn't even let a half-written line be taken back."""

    def truncate(self, descriptor: int, size: int) -> None:
        if self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().truncate(descriptor, size)


def test_a_half_line_that_can_t_be_taken_back(tmp_path: Path, undisturbed: Path) -> None:
    """Where a charge fails half-written and can't be cut off, it is cut off before anything else is written."""
    disk = WatchedDisk()
    played_on(disk, play_toy, tmp_path / "counted")
    appends = [number for number, name in enumerate(disk.calls) if name == "write"]
    for place in (1, 2, 6):
        root = tmp_path / str(place)
        played_through(root, CuttingFailsToo(appends[place]))
        assert_the_same(root, undisturbed)


class ShortDisk(WatchedDisk):
    """A disk that takes seven bytes at a time."""

    def write(self, descriptor: int, content: bytes, offset: int) -> int:
        return super().write(descriptor, content[:7], offset)


def test_a_disk_that_writes_little_at_a_time(tmp_path: Path, undisturbed: Path) -> None:
    """Short writes are gone on with, throughout a run."""
    played_on(ShortDisk(), play_toy, tmp_path / "run")

    assert_the_same(tmp_path / "run", undisturbed)


# Real runs


class FullOnce(Disk):
    """A disk that is full at the flush of one file, once."""

    def __init__(self, name: str) -> None:
        self._name = name

    def flush(self, descriptor: int) -> None:
        if self._name and self._name in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            self._name = ""
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().flush(descriptor)


@pytest.fixture(scope="module")
def undisturbed_real(tmp_path_factory: pytest.TempPathFactory) -> RunState:
    """Return a real run on a good disk."""
    return played(config(tmp_path_factory.mktemp("real"), split=SplitSource.PUBLIC)).state


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", ["staging/submit_001/summary.json", pytest.param("evaluation/held_out", marks=pytest.mark.nightly)]
)
def test_a_real_run_whose_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed_real: RunState, name: str
) -> None:
    """A run that can't be written stops with what to do, says why in its journal, and is resumed to the same end."""
    monkeypatch.setattr(atomic, "disk", FullOnce(name))
    with pytest.raises(StorageError, match=r"(?s)is full.*evopolicygym resume ") as caught:
        played(config(tmp_path / "runs", split=SplitSource.PUBLIC))
    (root,) = find_runs(tmp_path / "runs")
    stops = [(one.reason, "No space" in one.message) for one in events(RunPaths(root)) if isinstance(one, RunStopped)]
    state = runs.resume(root, 1, lambda _paths, _state: None, lambda _event, _state: None)

    assert (caught.value.exit_code, stops) == (1, [(StopReason.STORAGE, True)])
    assert told(undisturbed_real) == told(state)


SMALL = "216k"
"""Room for a run on cartpole to begin, and not to end."""


def on_a_small_disk(place: Path, script: str) -> "subprocess.CompletedProcess[str]":
    """Run a shell's script beside a small disk of its own; skip the test where none can be mounted."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("no disk can be mounted here: there is no program unshare")
    place.mkdir()
    mount = f"mount -t tmpfs -o size={SMALL} tmpfs {place} || exit 77"
    shell = f'{mount}\nprogram="{sys.executable} -m evopolicygym"\n{script}'
    done = subprocess.run(
        [unshare, "--user", "--map-root-user", "--mount", "sh", "-c", shell],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    return done


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """On a disk of 216 KB a run stops with exit code 1 and what to do; with more room it goes on to a clean record."""
    place = tmp_path / "disk"
    done = on_a_small_disk(
        place,
        f"""
$program run cartpole --runs {place}/runs --agent players:make_idler --budget 10 --validation 2 --held-out 3 \
    --workers 1 --isolation process; echo "run $?"
mount --options-mode ignore -o remount,size=64m tmpfs {place}
run=$(dirname {place}/runs/*/*/*/*/journal.jsonl)
$program resume $run --workers 1 > /dev/null; echo "resume $?"
$program verify $run > /dev/null; echo "verify $?"
""",
    )
    codes = [line for line in done.stdout.splitlines() if line.split()[0] in {"run", "verify", "resume"}]

    assert codes == ["run 1", "resume 0", "verify 0"], done.stderr
    assert "is full" in done.stderr
    assert "evopolicygym resume" in " ".join(done.stderr.split())
