"""What a policy reads of a library leaves no time of access where files are mounted read-only; elsewhere it is said."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from evopolicygym.sandbox.levels import choose
from playground import one_worker, policy
from simulators import spec

LONG_AGO = 0
READS = policy(reset="import symtable; print(len(open(symtable.__file__).read()))")


@pytest.fixture
def unread() -> Iterator[Path]:
    """A file of the standard library that was last read long ago, where reading it would be noted."""
    import symtable

    path = Path(symtable.__file__)
    before = path.stat()
    try:
        os.utime(path, ns=(LONG_AGO, before.st_mtime_ns))
        path.read_bytes()
        if path.stat().st_atime_ns == LONG_AGO:
            pytest.skip("the disk of the standard library keeps no times of access")
        os.utime(path, ns=(LONG_AGO, before.st_mtime_ns))
    except OSError as error:
        pytest.skip(f"this user can't set times of the standard library's files: {error}")
    yield path
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_reading_is_not_noted(unread: Path, tmp_path: Path) -> None:
    """At bubblewrap a library's file that a policy reads is, to all others, as unread as before."""
    with one_worker("bubblewrap", spec("Plain", 1), tmp_path) as ground:
        read = int(ground.play_one(READS).read())

    assert (read, unread.stat().st_atime_ns) == (len(unread.read_text()), LONG_AGO)


def test_what_is_noted_is_said() -> None:
    """At level process the findings say whether readings are noted, and that process numbers count."""
    found = choose("process").findings

    assert found["times of access"].endswith(("can see", "standard library"))
    assert "how many processes" in found["process numbers"]
