"""Lays a workspace: the desk's files, a starter policy, and an empty place for feedback."""

import shutil
from functools import cache
from hashlib import sha256
from importlib.resources import as_file, files

from evopolicygym.core.film_request import FILMS_A_SUBMISSION
from evopolicygym.records.checkpoints import checkpoint_name
from evopolicygym.records.paths import RunPaths

EXECUTABLE = ("judge",)
RULES, BEFORE_FILMS = "AGENTS.md", "\n## What counts\n"
"""The file that tells an agent of its desk, and the line before which it is told of films where it may have some."""
POLICY = "system"
"""The directory of the workspace's files that holds the starter policy, and nothing else."""


@cache
def starter() -> str:
    """Return the name of the checkpoint that the starter policy is where nobody edits it: it plays at random."""
    with as_file(files("evopolicygym.runs") / "desk" / POLICY) as policy:
        contents = {path.name: path.read_bytes() for path in policy.glob("*.py")}
    return checkpoint_name({name: (len(text), sha256(text).hexdigest()) for name, text in contents.items()})


def lay(paths: RunPaths, films: int = 0) -> None:
    """Make a run's directories and put the desk's files into its workspace, for an agent with so many films."""
    for directory in (paths.workspace, paths.feedback, paths.checkpoints, paths.staging, paths.logs):
        directory.mkdir(parents=True, exist_ok=True)
    with as_file(files("evopolicygym.runs") / "desk") as desk:
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(desk, paths.workspace, dirs_exist_ok=True, ignore=ignored)
    for name in EXECUTABLE:
        (paths.workspace / name).chmod(0o755)
    if films:
        rules = paths.workspace / RULES
        told = (files("evopolicygym.runs") / "films.md").read_text(encoding="utf-8")
        told = told.format(films=films, a_submission=FILMS_A_SUBMISSION)
        before, heading, after = rules.read_text(encoding="utf-8").partition(BEFORE_FILMS)
        rules.write_text(f"{before}\n{told}{heading}{after}", encoding="utf-8")
