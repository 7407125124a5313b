"""What a policy reads of a library leaves no time of access where files are mounted read-only; elsewhere it is said."""

import os
from pathlib import Path

import pytest

from distributions import install_distribution
from evopolicygym.sandbox.levels import choose
from playground import one_worker, policy
from simulators import spec

LONG_AGO = 0
READS = policy(reset="import own_library; print(len(open(own_library.__file__).read()))")


@pytest.fixture
def unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a library's file that was last read long ago, on a disk that notes when a file is read."""
    install_distribution(tmp_path / "site", "own_library", own_library="TEXT = 'to be read'\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    path = tmp_path / "site" / "own_library.py"
    before = path.stat().st_mtime_ns
    os.utime(path, ns=(LONG_AGO, before))
    path.read_bytes()
    if path.stat().st_atime_ns == LONG_AGO:
        pytest.skip("this disk keeps no times of access")
    os.utime(path, ns=(LONG_AGO, before))
    return path


def test_reading_is_not_noted(unread: Path, tmp_path: Path) -> None:
    """At bubblewrap a library's file that a policy reads is, to all others, as unread as before."""
    with one_worker("bubblewrap", spec("Plain", 1), tmp_path, packages=("own_library",)) as ground:
        read = int(ground.play_one(READS).read())

    assert (unread.stat().st_atime_ns, read) == (LONG_AGO, len(unread.read_text()))


def test_what_is_noted_is_said() -> None:
    """At level process the findings say whether readings are noted, and that process numbers count."""
    assert {"times of access", "process numbers"} <= choose("process").findings.keys()
