"""Durable writing: what is renamed was flushed before, and the names are flushed after."""

import os
from pathlib import Path

import pytest

from evopolicygym.records import atomic


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return, as they happen, the names of what is flushed, with the bytes on disk by then."""
    seen: list[tuple[str, int]] = []

    def fsync(number: int) -> None:
        path = Path(f"/proc/self/fd/{number}").readlink()
        seen.append((path.name, 0 if path.is_dir() else path.stat().st_size))

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


def test_a_text_is_flushed_and_then_its_name(tmp_path: Path, flushed: list[tuple[str, int]]) -> None:
    """The whole content goes to disk under another name first, then the directory that holds the right one."""
    atomic.write_text(tmp_path / "a", "text")

    assert [(f"a.{os.getpid()}.part", 4), (tmp_path.name, 0)] == flushed


def test_a_new_text_is_flushed_and_then_its_name(tmp_path: Path, flushed: list[tuple[str, int]]) -> None:
    """So it is with a file that must not have been there."""
    atomic.create_text(tmp_path / "a", "text")

    assert [(f"a.{os.getpid()}.part", 4), (tmp_path.name, 0)] == flushed


def test_a_rename_flushes_both_places(tmp_path: Path, flushed: list[tuple[str, int]]) -> None:
    """A name that moves is flushed where it is now and where it was."""
    for place in ("from", "to"):
        (tmp_path / place).mkdir()
    (tmp_path / "from" / "a").touch()
    atomic.rename(tmp_path / "from" / "a", tmp_path / "to" / "a")

    assert flushed == [("to", 0), ("from", 0)]
