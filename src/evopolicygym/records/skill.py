"""A skill: a directory with ``SKILL.md`` that an agent is handed, read-only, in its workspace.

A run records the directory's name and the start of a SHA-256 of its files, computed as that of a checkpoint, so that
runs with another skill, or with another version of one, are other entries.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from evopolicygym.core import regular_file
from evopolicygym.core.agent import SKILL, SKILL_ENTRY
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.records.checkpoints import checkpoint_name, hash_files

MOST_BYTES, MOST_FILES = 16 << 20, 1000
LEFT_OUT = frozenset({".git", "__pycache__"})
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DIGITS = 16
"""Hexadecimal digits of the digest that are recorded."""


def skill_identity(directory: Path) -> str:
    """Return the name of a skill and the start of its digest; raise ``UsageError`` if a directory isn't one."""
    expected = f"expected a directory with {SKILL_ENTRY}"
    if not NAME.fullmatch(name := directory.resolve().name):
        raise UsageError(f"Invalid skill {directory}: {expected} whose name has letters, digits, '.', '_' and '-'.")
    try:
        files = _files(directory)
    except (OSError, RecordError) as error:
        raise UsageError(f"Invalid skill {directory}: {expected}, of files and directories ({error}).") from error
    if SKILL_ENTRY not in files:
        raise UsageError(f"Invalid skill {directory}: {expected}, got one without it.")
    if len(files) > MOST_FILES:
        raise UsageError(f"Invalid skill {directory}: expected at most {MOST_FILES} files, got {len(files)}.")
    return f"{name} {_digest(files)}"


def copy_skill(source: Path, workspace: Path, identity: str) -> None:
    """Put a skill into a workspace, read-only; raise ``UsageError`` if it has changed since it was identified."""
    target = workspace / SKILL
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*LEFT_OUT))
    if not is_unchanged(workspace, identity):
        raise UsageError(f"The skill {source} changed while the run was opened; start it again.")
    for path, _ in regular_file.below(target):
        path.chmod(path.stat().st_mode & 0o555)


def is_unchanged(workspace: Path, identity: str) -> bool:
    """Return whether the skill in a workspace has this identity.

    Raises ``FileNotFoundError`` where there is none, ``RecordError`` if it holds anything but files and directories.
    """
    return identity.rpartition(" ")[2] == _digest(_files(workspace / SKILL, workspace))


def _files(directory: Path, root: Path | None = None) -> dict[str, tuple[int, str]]:
    """Return the size and the SHA-256 of each of a skill's files, by path."""
    files = hash_files(directory, root, MOST_BYTES)
    return {path: entry for path, entry in files.items() if LEFT_OUT.isdisjoint(path.split("/"))}


def _digest(files: Mapping[str, tuple[int, str]]) -> str:
    return checkpoint_name(files)[:DIGITS]
