"""The client of a workspace, laid where an agent of a test finds it."""

import shutil
from importlib.resources import as_file, files
from pathlib import Path

PARTS = ("judge", "judge_client")


def lay_client(workspace: Path) -> None:
    """Put the client into a directory, as every workspace has it."""
    with as_file(files("evopolicygym.runs") / "workspace_template") as template:
        for source in (template / name for name in PARTS):
            target = workspace / source.name
            shutil.copytree(source, target, dirs_exist_ok=True) if source.is_dir() else shutil.copy(source, target)
    (workspace / "judge").chmod(0o755)
