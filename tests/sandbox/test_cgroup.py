"""Control groups: where one can be made, that its limits hold, and that nothing of it is left."""

import os
import subprocess
from pathlib import Path

import pytest

from evopolicygym.sandbox import cgroup
from fakes import PATIENCE_S
from playground import local_executor, policy
from simulators import spec

needs_groups = pytest.mark.skipif(not cgroup.can_be_made(), reason="no control group can be made here")
MAKERS = {"gone": 4194305, "used": 4194305, "there": os.getpid()}
"""Numbers of processes by what is to become of their groups; no process has the first, which is above the limit."""
REFUSED = "for place in 1 2 3 4 5 6; do sleep 600 & done; wait"


def groups(maker: int) -> list[Path]:
    """Return the groups that a process made."""
    parents = cgroup._candidates(("pids",))
    return [group for parent in parents for group in parent.glob(f"{cgroup.PREFIX}-{maker}-*")]


@pytest.mark.needs_root
@needs_groups
def test_processes_are_bounded() -> None:
    """A group holds no more processes than it may; what is still in it is ended with it."""
    group = cgroup.make(4)
    assert group is not None
    words = group.join_command("/bin/sh", ["sh", "-c", REFUSED])
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True) as started:
        assert started.stderr is not None
        assert "ork" in started.stderr.readline()  # cannot fork
        group.remove(PATIENCE_S)

    assert not group.directory.exists()


@pytest.mark.needs_root
@needs_groups
def test_an_executor_leaves_no_group(tmp_path: Path) -> None:
    """Once an executor is closed, the groups of its workers are gone."""
    with local_executor("process", spec("Plain"), tmp_path) as ground:
        ground.play_one(policy())
        workers = list(ground.executor._workers)  # type: ignore[attr-defined]
        assert groups(workers[0])

    assert [group for worker in workers for group in groups(worker)] == []


def laid(root: Path, mounts: str, membership: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the kernel say where groups are mounted below a directory, and which this process is in."""
    for name, text in (("MOUNTS", mounts.format(root=root)), ("MEMBERSHIP", membership)):
        (root / name).write_text(text, encoding="utf-8")
        monkeypatch.setattr(cgroup, name, root / name)


def test_groups_of_version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of version 2, groups are made where the children get the controllers, from our own upwards."""
    mine = tmp_path / "two" / "user" / "mine"
    mine.mkdir(parents=True)
    (mine / "cgroup.subtree_control").write_text("pids\n", encoding="utf-8")
    (mine.parent / "cgroup.subtree_control").write_text("memory pids\n", encoding="utf-8")
    laid(tmp_path, "30 1 0:2 / {root}/two rw - cgroup2 cgroup2 rw\n", "0::/user/mine\n", monkeypatch)

    assert list(cgroup._candidates(("memory", "pids"))) == [mine.parent]


def test_version_1_is_as_no_control_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel mounts version 1 only, no group is made, although one of its trees could be written."""
    (tmp_path / "pids").mkdir()
    mounts = "31 1 0:3 / {root}/pids rw - cgroup cgroup rw,pids\n"
    laid(tmp_path, mounts, "8:pids:/\n0::/\n", monkeypatch)

    assert list(cgroup._candidates(("pids",))) == []


def test_what_a_killed_judge_left_is_removed(tmp_path: Path) -> None:
    """Old empty groups of a process that is gone are removed; those of others, and those in use, are not."""
    groups = {name: tmp_path / f"{cgroup.PREFIX}-{maker}-{name}" for name, maker in MAKERS.items()}
    for group in groups.values():
        group.mkdir()
    (groups["used"] / "group").mkdir()
    made = groups["gone"].stat().st_ctime
    cgroup._sweep(tmp_path, made)
    young = {name for name, group in groups.items() if group.exists()}
    cgroup._sweep(tmp_path, made + 2 * cgroup.STRAY_S)

    assert young == groups.keys()
    assert {name for name, group in groups.items() if group.exists()} == {"there", "used"}
