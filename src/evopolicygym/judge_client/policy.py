"""Reads, replaces and compares the policy project in system/."""

import difflib

from .workspace_files import Workspace

SYSTEM = "system"
LEFT_OUT = ("__pycache__", ".git", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints")
"""Directories that no checkpoint holds."""


def present(workspace: Workspace) -> dict[str, bytes]:
    """Return the files of system/ by their paths there, without those that no checkpoint holds."""
    paths = [path for path in workspace.walk(SYSTEM, LEFT_OUT) if not path.endswith((".pyc", ".pyo"))]
    return {path: workspace.read(f"{SYSTEM}/{path}") for path in paths}


def write(workspace: Workspace, files: dict[str, bytes]) -> None:
    """Write files into system/, by their paths there."""
    for name, content in files.items():
        workspace.write(f"{SYSTEM}/{name}", content)


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
