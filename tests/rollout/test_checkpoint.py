"""Taking a checkpoint from a directory that belongs to a stranger."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from evopolicygym.core.errors import RequestRefused
from evopolicygym.core.task import Limits
from evopolicygym.judge.session import forget_checkpoint
from evopolicygym.records.checkpoints import name_of
from evopolicygym.records.writer import RunWriter
from evopolicygym.rollout import checkpoint
from evopolicygym.rollout.checkpoint import MAX_DEPTH, capture
from fakes import opening

LIMITS = Limits(checkpoint_mb=1, checkpoint_files=20)


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A good policy with a module and some weights."""
    root = tmp_path / "system"
    (root / "parts").mkdir(parents=True)
    (root / "policy.py").write_text("class Policy: pass\n")
    (root / "parts" / "weights.bin").write_bytes(bytes(range(256)))
    return root


def files(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_checkpoint_is_named_by_its_content(system: Path, tmp_path: Path) -> None:
    """The same content has the same name, is stored once, and can be checked against its name."""
    store = tmp_path / "store"
    names = {capture(system, store, LIMITS), capture(system, store, LIMITS)}
    (name,) = names

    assert ([store / name], name) == (list(store.iterdir()), name_of(store / name))
    assert files(system) == files(store / name)


@pytest.mark.parametrize("change", ["content", "name", "more"])
def test_other_content_has_another_name(system: Path, tmp_path: Path, change: str) -> None:
    """Any byte, path or further file makes another checkpoint."""
    before = capture(system, tmp_path / "store", LIMITS)
    match change:
        case "content":
            (system / "parts" / "weights.bin").write_bytes(bytes(256))
        case "name":
            (system / "parts").rename(system / "pieces")
        case _:
            (system / "empty").touch()

    assert before != capture(system, tmp_path / "store", LIMITS)


def test_caches_and_rights_are_left_out(system: Path, tmp_path: Path) -> None:
    """Compiled modules, caches and special rights are not taken; times don't count."""
    before = capture(system, tmp_path / "store", LIMITS)
    for leftover in ("__pycache__/policy.cpython-311.pyc", ".git/HEAD", "old.pyc"):
        (system / leftover).parent.mkdir(exist_ok=True)
        (system / leftover).touch()
    (system / "policy.py").chmod(0o4777)
    os.utime(system / "policy.py", (0, 0))
    after = capture(system, tmp_path / "another store", LIMITS)

    assert before == after
    assert (tmp_path / "another store" / after / "policy.py").stat().st_mode & 0o7777 == 0o644


def link_file(root: Path) -> None:
    (root / "link.py").symlink_to("/etc/passwd")


def link_directory(root: Path) -> None:
    (root / "link").symlink_to("/etc")


def link_nowhere(root: Path) -> None:
    (root / "__pycache__").symlink_to("nowhere")


def link_policy(root: Path) -> None:
    (root / "policy.py").rename(root / "real.py")
    (root / "policy.py").symlink_to("real.py")


def hard_link(root: Path) -> None:
    (root / "again.py").hardlink_to(root / "policy.py")


def pipe(root: Path) -> None:
    os.mkfifo(root / "pipe")


def unix_socket(root: Path) -> None:
    before = Path.cwd()
    os.chdir(root)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("s")
    os.chdir(before)


def sparse(root: Path) -> None:
    with (root / "sparse").open("wb") as file:
        file.truncate(1 << 40)


def large(root: Path) -> None:
    for number in range(5):
        (root / f"part{number}").write_bytes(bytes(1 << 18))


def many_files(root: Path) -> None:
    for number in range(21):
        (root / f"f{number}").touch()


def many_directories(root: Path) -> None:
    for number in range(41):
        (root / f"d{number}").mkdir()


def deep(root: Path) -> None:
    (root / "/".join(["d"] * (MAX_DEPTH + 1))).mkdir(parents=True)


def long_name(root: Path) -> None:
    (root / ("n" * 201)).touch()


def control_name(root: Path) -> None:
    (root / "a\nb").touch()


def broken_name(root: Path) -> None:
    (root / os.fsdecode(b"a\xff")).touch()


def no_policy(root: Path) -> None:
    (root / "policy.py").unlink()


def policy_directory(root: Path) -> None:
    (root / "policy.py").unlink()
    (root / "policy.py").mkdir()


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (link_file, "link.py"),
        (link_directory, "link"),
        (link_nowhere, "__pycache__"),
        (link_policy, "policy.py"),
        (hard_link, " 2 "),
        (pipe, "pipe"),
        (unix_socket, "s"),
        (sparse, "1 MiB"),
        (large, "1 MiB"),
        (many_files, " 20 "),
        (many_directories, " 40 "),
        (deep, f" {MAX_DEPTH} "),
        (long_name, " 200 "),
        (control_name, "control"),
        (broken_name, "UTF-8"),
        (no_policy, "policy.py"),
        (policy_directory, "policy.py"),
    ],
)
def test_what_can_not_be_taken(system: Path, tmp_path: Path, spoil: Callable[[Path], None], named: str) -> None:
    """A directory that breaks a rule is refused by name or limit, and nothing of it is left in the store."""
    spoil(system)
    store = tmp_path / "store"

    with pytest.raises(RequestRefused) as refusal:
        capture(system, store, LIMITS)
    assert named in str(refusal.value)
    assert list(store.iterdir()) == []


def test_no_directory_to_take(tmp_path: Path) -> None:
    """A system that is missing, or a link itself, is refused."""
    (tmp_path / "link").symlink_to("/")
    for system in (tmp_path / "missing", tmp_path / "link"):
        with pytest.raises(RequestRefused):
            capture(system, tmp_path / "store", LIMITS)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_wide_trees_take_few_descriptors(system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many directories lie side by side, only those on the way to one are open at a time."""
    for number in range(30):
        (system / f"d{number}").mkdir()
    copy_file, most = checkpoint._copy_directory, 0

    def counted(*arguments: object) -> object:
        nonlocal most
        most = max(most, descriptors())
        return copy_file(*arguments)  # type: ignore[arg-type] # passed through

    monkeypatch.setattr(checkpoint, "_copy_directory", counted)
    before = descriptors()
    capture(system, tmp_path / "store", LIMITS)

    assert most - before < 10


@pytest.mark.parametrize("change", ["grows", "is rewritten"])
def test_what_changes_while_it_is_read(
    system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """A file that is written to while it is copied is refused, not taken half and half."""
    read = os.read

    def meddling(descriptor: int, count: int) -> bytes:
        chunk = read(descriptor, count)
        target = system / "policy.py"
        target.write_text(target.read_text() + "#" * 9) if change == "grows" else os.utime(target, (1, 1))
        return chunk or (read(descriptor, count) if change == "grows" else b"")

    (system / "parts" / "weights.bin").unlink()
    monkeypatch.setattr(checkpoint.os, "read", meddling)

    with pytest.raises(RequestRefused, match=r"policy\.py"):
        capture(system, tmp_path / "store", LIMITS)
    assert list((tmp_path / "store").iterdir()) == []


def test_half_of_a_forgotten_checkpoint_is_no_checkpoint(
    system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while it removes what was refused, a run finds nothing under the name of the whole."""
    with RunWriter(tmp_path / "run", opening()) as writer:
        name = capture(system, writer.paths.checkpoints, LIMITS)
        monkeypatch.setattr(shutil, "rmtree", lambda _place, **_options: None)  # dead before the first file is gone
        forget_checkpoint(writer, name)

        assert not writer.paths.checkpoint(name).exists()
    monkeypatch.undo()
    with RunWriter(tmp_path / "run") as writer:
        assert list(writer.paths.checkpoints.iterdir()) == []
