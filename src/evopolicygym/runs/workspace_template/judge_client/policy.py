"""Reads, replaces and compares the policy project in system/."""

import difflib
import os
import shutil
from pathlib import Path

LEFT_OUT = ("__pycache__", ".git", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints")
"""Directories that no checkpoint holds."""


def present(workspace: Path) -> dict[str, bytes]:
    """Return the files of system/ by their paths there, without those that no checkpoint holds."""
    found, system = {}, workspace / "system"
    for directory, names, files in os.walk(system):
        names[:] = [name for name in names if name not in LEFT_OUT]
        for path in (Path(directory, name) for name in files):
            if path.suffix not in {".pyc", ".pyo"} and path.is_file():
                found[path.relative_to(system).as_posix()] = path.read_bytes()
    return found


def clear(workspace: Path) -> None:
    """Remove everything in system/."""
    for old in (workspace / "system").iterdir():
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()


def write(workspace: Path, files: dict[str, bytes]) -> None:
    """Write files into system/, by their paths there."""
    for name, content in files.items():
        path = workspace / "system" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def difference(before: dict[str, bytes], after: dict[str, bytes], first: str, second: str) -> str:
    """Return what changed between two projects, as a unified diff."""
    lines = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, b""), after.get(name, b"")
        if b"\0" in old + new:
            lines += [f"{name}: {len(old)} and {len(new)} bytes, binary"] if old != new else []
            continue
        was, now = (text.decode("utf-8", "replace").splitlines() for text in (old, new))
        lines += difflib.unified_diff(was, now, f"{name} of {first}", f"{name} of {second}", lineterm="")
    return "\n".join(lines) or f"{first} and {second} hold the same files."
