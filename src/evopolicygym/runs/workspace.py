"""Lays a workspace: the template's files, a starter policy, and an empty place for feedback."""

import platform
import shutil
from collections.abc import Collection
from functools import cache
from hashlib import sha256
from importlib.resources import as_file, files

from evopolicygym.core.agent import SYSTEM
from evopolicygym.core.submission import FILMS_A_SUBMISSION
from evopolicygym.records.checkpoints import checkpoint_name
from evopolicygym.records.paths import RunPaths
from evopolicygym.sandbox.packages import policy_library
from evopolicygym.sandbox.program.view import PACKAGES

EXECUTABLE = ("judge",)
RULES, BEFORE_BUDGET, BEFORE_FILMS = "AGENTS.md", "\n## The budget\n", "\n## What counts\n"
"""The file that an agent reads first, and the lines before which it reads of packages and films, where it may have
some."""
"""The directory of the workspace's files that holds the starter policy, and nothing else."""


@cache
def starter() -> str:
    """Return the name of the checkpoint that the starter policy is where nobody edits it: it plays at random."""
    with as_file(files("evopolicygym.runs") / "workspace_template" / SYSTEM) as policy:
        contents = {path.name: path.read_bytes() for path in policy.glob("*.py")}
    return checkpoint_name({name: (len(text), sha256(text).hexdigest()) for name, text in contents.items()})


def lay(paths: RunPaths, films: int = 0, policy_packages: Collection[str] = ()) -> None:
    """Make a run's directories and put the template's files into its workspace.

    Its agent may have so many films, and its policies may import these besides what all may.
    """
    for directory in (paths.workspace, paths.notes, paths.feedback, paths.checkpoints, paths.staging, paths.logs):
        directory.mkdir(parents=True, exist_ok=True)
    with as_file(files("evopolicygym.runs") / "workspace_template") as template:
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(template, paths.workspace, dirs_exist_ok=True, ignore=ignored)
    for name in EXECUTABLE:
        (paths.workspace / name).chmod(0o755)
    if policy_packages:
        (paths.workspace / PACKAGES).mkdir()
        python = ".".join(platform.python_version_tuple()[:2])
        _tell(paths, "packages.md", BEFORE_BUDGET, names=", ".join(policy_packages), python=python)
    if films:
        _tell(paths, "films.md", BEFORE_FILMS, films=films, a_submission=FILMS_A_SUBMISSION)


def link_packages(paths: RunPaths, policy_packages: Collection[str]) -> None:
    """Have the workspace lead to what policies may import, for an agent that no namespace shows it to."""
    for name, path in policy_library(policy_packages).paths.items():
        (paths.workspace / PACKAGES / name).symlink_to(path)


def _tell(paths: RunPaths, name: str, heading: str, **values: object) -> None:
    """Put one of our texts into an agent's rules, before a heading."""
    rules = paths.workspace / RULES
    text = (files("evopolicygym.runs") / name).read_text(encoding="utf-8").format(**values)
    before, found, after = rules.read_text(encoding="utf-8").partition(heading)
    rules.write_text(f"{before}\n{text}{found}{after}", encoding="utf-8")
