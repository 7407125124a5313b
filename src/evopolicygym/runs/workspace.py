"""Lays a workspace: the desk's files, a starter policy, and an empty place for feedback."""

import shutil
from importlib.resources import as_file, files

from evopolicygym.records.paths import RunPaths

EXECUTABLE = ("judge",)


def lay(paths: RunPaths) -> None:
    """Make a run's directories and put the desk's files into its workspace."""
    for directory in (paths.workspace, paths.feedback, paths.checkpoints, paths.staging, paths.logs):
        directory.mkdir(parents=True, exist_ok=True)
    with as_file(files("evopolicygym.runs") / "desk") as desk:
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(desk, paths.workspace, dirs_exist_ok=True, ignore=ignored)
    for name in EXECUTABLE:
        (paths.workspace / name).chmod(0o755)
