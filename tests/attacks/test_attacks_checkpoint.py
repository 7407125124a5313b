"""Attacks by what lies in system/, tried through the judge's door: refused in time, uncharged, nothing left behind."""

import ctypes
import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from time import monotonic

import pytest

from asking import ask, ask_until, assert_unharmed, refusal, submit
from evopolicygym.core.task import Limits
from evopolicygym.records.checkpoints import PARTIAL_PREFIX
from evopolicygym.records.paths import RunPaths
from evopolicygym.rollout import checkpoint
from fakes import RunMaker

REFUSED = (400, "invalid_checkpoint")
HIDDEN = "a secret that lies outside"
REFUSED_WITHIN_S = 2.0
FEW, MANY_FILES, MANY_DIRECTORIES = 200, 201, 401
"""A limit, and just more files and directories than it allows, so that they are quickly made."""


def outside(system: Path) -> Path:
    """Return a file outside that holds a secret."""
    place = system.parents[2] / "outside"
    place.mkdir(exist_ok=True)
    (place / "secret.py").write_text(HIDDEN)
    return place / "secret.py"


def link_to_a_file(system: Path) -> None:
    (system / "more.py").symlink_to(outside(system))


def link_to_a_directory(system: Path) -> None:
    (system / "more").symlink_to(outside(system).parent)


def link_to_itself(system: Path) -> None:
    (system / "more.py").symlink_to("more.py")


def link_to_above(system: Path) -> None:
    (system / "more").symlink_to("..")


def link_to_nothing(system: Path) -> None:
    (system / "more.py").symlink_to("nothing")


def policy_is_a_link(system: Path) -> None:
    (system / "policy.py").unlink()
    (system / "policy.py").symlink_to(outside(system))


def system_is_a_link(system: Path) -> None:
    system.rename(system.with_name("real"))
    system.symlink_to("real")


def hard_link(system: Path) -> None:
    (system / "more.py").hardlink_to(outside(system))


def sparse_terabyte(system: Path) -> None:
    with (system / "more").open("wb") as file:
        file.truncate(1 << 40)


def large_file(system: Path) -> None:
    with (system / "more").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 300 << 20)


def many_files(system: Path, count: int = MANY_FILES) -> None:
    (system / "many").mkdir()
    for number in range(count):
        os.mknod(system / "many" / f"{number}")


def many_directories(system: Path, count: int = MANY_DIRECTORIES) -> None:
    (system / "many").mkdir()
    for number in range(count):
        (system / "many" / f"{number}").mkdir()


def two_hundred_thousand_files(system: Path) -> None:
    many_files(system, 200_000)


def fifty_thousand_directories(system: Path) -> None:
    many_directories(system, 50_000)


def unreadable_file(system: Path) -> None:
    (system / "more.py").touch(mode=0o000)


def unreadable_directory(system: Path) -> None:
    (system / "more").mkdir(mode=0o000)


def policy_is_missing(system: Path) -> None:
    (system / "policy.py").unlink()


def policy_is_a_directory(system: Path) -> None:
    (system / "policy.py").unlink()
    (system / "policy.py").mkdir()


def policy_of_eighty_megabytes(system: Path) -> None:
    (system / "policy.py").write_bytes(b"#" * (80 << 20))


SPOILED = [
    *(link_to_a_file, link_to_a_directory, link_to_itself, link_to_above, link_to_nothing, policy_is_a_link),
    *(system_is_a_link, hard_link, sparse_terabyte, large_file, many_files, many_directories, unreadable_file),
    *(unreadable_directory, policy_is_missing, policy_is_a_directory, policy_of_eighty_megabytes),
]
CROWDS = [two_hundred_thousand_files, fifty_thousand_directories]
UNREADABLE = [unreadable_file, unreadable_directory]
"""Of which root can be denied nothing."""


@pytest.mark.nightly
@pytest.mark.usefixtures("real_limits")
@pytest.mark.parametrize("spoil", [*SPOILED, *CROWDS])
def test_what_can_not_be_taken_is_refused_in_time(new_run: RunMaker, spoil: Callable[[Path], None]) -> None:
    """Whatever lies there, it is refused within two seconds."""
    run = new_run(limits=Limits() if spoil in CROWDS else Limits(checkpoint_files=FEW))
    spoil(run.paths.system)
    began = monotonic()
    answer = submit(run)
    seconds = monotonic() - began

    assert refusal(answer) == REFUSED
    assert seconds < REFUSED_WITHIN_S


@pytest.mark.parametrize(
    "spoil",
    [pytest.param(spoil, marks=[pytest.mark.needs_root] * (spoil in UNREADABLE)) for spoil in SPOILED],
)
def test_what_can_not_be_taken_is_refused(new_run: RunMaker, spoil: Callable[[Path], None]) -> None:
    """Links, crowds, giants and what can't be read are refused, and nothing outside is read."""
    run = new_run(limits=Limits(checkpoint_files=FEW))
    before, system = run.journal(), run.paths.system
    spoil(system)
    answer = submit(run)
    repair(run.paths)

    assert refusal(answer) == REFUSED
    assert HIDDEN not in answer.text
    assert str(run.paths.root) not in answer.text
    assert_unharmed(run, before)
    assert not [path for path in run.paths.root.rglob("*") if path.is_file() and HIDDEN.encode() in path.read_bytes()]


def repair(paths: RunPaths) -> None:
    """Put an honest policy where the spoiled one lay; that is set aside."""
    paths.system.rename(paths.root.with_name("spoiled"))
    paths.system.mkdir()
    (paths.system / "policy.py").write_text("1")


def test_a_tree_deeper_than_any_path(new_run: RunMaker) -> None:
    """A tree deeper than a path may be long, and than a recursion goes, is refused, and nothing of it is left."""
    run = new_run()
    before, levels = run.journal(), 1100
    directory = os.open(run.paths.system, os.O_RDONLY)
    with descended(directory, "deeper", levels):
        answer = submit(run)

    assert refusal(answer) == REFUSED
    assert_unharmed(run, before)


@contextmanager
def descended(directory: int, name: str, levels: int) -> Iterator[None]:
    """Make a tree of one directory in another, too deep to be named, and remove it again."""
    for _ in range(levels):
        os.mkdir(name, dir_fd=directory)
        below = os.open(name, os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = below
    try:
        yield
    finally:
        for _ in range(levels):
            above = os.open("..", os.O_RDONLY, dir_fd=directory)
            os.close(directory)
            directory = above
            os.rmdir(name, dir_fd=directory)
        os.close(directory)


@pytest.mark.needs_root
def test_rights_and_attributes_are_not_carried(new_run: RunMaker) -> None:
    """Special rights, attributes, odd owners and access lists stay behind: a checkpoint's modes are always the same."""
    run = new_run()
    policy, parts = run.paths.system / "policy.py", run.paths.system / "parts"
    parts.mkdir()
    (parts / "more.py").touch()
    with suppress(OSError):  # not every file system has them
        os.setxattr(policy, "user.mark", b"1")
    with suppress(PermissionError):  # only root may
        os.chown(policy, 12345, 12345)
    policy.chmod(0o6755)
    parts.chmod(0o3700)
    submit(run)
    (taken,) = run.paths.checkpoints.iterdir()

    assert {path.stat().st_mode & 0o7777 for path in taken.rglob("*") if path.is_file()} == {0o644}
    assert {path.stat().st_mode & 0o7777 for path in (taken, taken / "parts")} == {0o755}
    assert os.listxattr(taken / "policy.py") == []
    assert {path.stat().st_uid for path in taken.rglob("*")} == {os.getuid()}


def test_a_leased_file(new_run: RunMaker) -> None:
    """A file whose lease would hold up whoever opens it is refused at once."""
    run = new_run()
    before = run.journal()
    with (run.paths.system / "leased").open("w") as file:
        before_signal = signal.signal(signal.SIGIO, signal.SIG_IGN)  # with which the kernel asks for the lease back
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        answer = submit(run)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        signal.signal(signal.SIGIO, before_signal)
    (run.paths.system / "leased").unlink()

    assert refusal(answer) == REFUSED
    assert_unharmed(run, before)


@contextmanager
def silent_file_system(place: Path) -> Iterator[None]:
    """Mount a file system that nobody serves: whoever looks into it is held up until it is given up."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        served = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        pytest.skip(f"no file system of one's own can be made here: {error.strerror}")
    options = f"fd={served},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}".encode()
    if libc.mount(b"none", os.fsencode(place), b"fuse", 0, options):
        os.close(served)
        pytest.skip(f"no file system can be mounted here: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        os.close(served)
        libc.umount2(os.fsencode(place), 2)


@pytest.mark.needs_root
def test_a_directory_that_holds_up_whoever_opens_it(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who opens what never answers is not waited for: the request is refused, and others are answered meanwhile."""
    monkeypatch.setattr(checkpoint, "CAPTURE_TIMEOUT_S", 0.3)
    monkeypatch.setattr(checkpoint, "GRACE_S", 0.3)
    run = new_run()
    before = run.journal()
    (run.paths.system / "silent").mkdir()
    answers = []
    with silent_file_system(run.paths.system / "silent"):
        asking = Thread(target=lambda: answers.extend((submit(run), submit(run))))
        asking.start()
        assert ask(run, "GET", "/info").status_code == 200
        asking.join()
    ask_until(run, lambda: run.paths.checkpoints not in checkpoint._busy_stores)
    (run.paths.system / "silent").rmdir()
    monkeypatch.undo()

    assert [refusal(answer) for answer in answers] == [REFUSED] * 2
    assert_unharmed(run, before)


def test_a_file_that_is_slow_to_read(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be read in time is refused."""
    monkeypatch.setattr(checkpoint, "CAPTURE_TIMEOUT_S", 0.0)
    run = new_run()
    before = run.journal()
    answer = submit(run)
    monkeypatch.undo()

    assert refusal(answer) == REFUSED
    assert_unharmed(run, before)


def test_leftovers_of_a_killed_process_are_removed(new_run: RunMaker) -> None:
    """A copy that a kill cut short is gone when the next checkpoint is taken."""
    run = new_run()
    (run.paths.checkpoints / f"{PARTIAL_PREFIX}old" / "parts").mkdir(parents=True)

    assert submit(run).status_code == 200
    assert [one.name for one in run.paths.checkpoints.iterdir() if one.name.startswith(".")] == []


def test_a_checkpoint_is_on_disk_before_it_is_charged(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file and directory of a copy is flushed, then the name it was given, before the journal has the charge."""
    run = new_run()
    (run.paths.system / "parts").mkdir()
    (run.paths.system / "parts" / "more.py").touch()
    flushed: list[tuple[str, bool]] = []
    really = os.fsync

    def watched(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        named = [one for one in run.paths.checkpoints.iterdir() if not one.name.startswith(".")]
        flushed.append((path.name, bool(named)))
        really(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", watched)
        submit(run)
    first = flushed[: flushed.index((run.paths.journal.name, True))]

    assert first[-1] == (run.paths.checkpoints.name, True)
    assert {name for name, named in first if not named} >= {"policy.py", "parts", "more.py"}


def test_a_refused_charge_leaves_no_checkpoint(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that was taken and could not be charged is removed: who asks again and again fills no disk."""
    run = new_run()
    before = run.journal()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "pwrite", full)
        for number in range(3):
            run.write_policy(f"{number} # another each time")
            assert refusal(submit(run)) == (503, "unavailable")

    assert list(run.paths.checkpoints.iterdir()) == []
    assert_unharmed(run, before)
