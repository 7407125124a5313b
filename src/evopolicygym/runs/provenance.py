"""What a run was made with: the version of this package, of the agent's tool, of the kernel and of bubblewrap."""

import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from evopolicygym.core.agent import Agent, ModelAgent, VersionedAgent
from evopolicygym.core.text import version_line
from evopolicygym.sandbox.bwrap import bwrap_version
from evopolicygym.version import __version__

GIT_S = 5.0
"""Seconds that git has to answer."""
DIRTY = ".dirty"


@cache
def package_version() -> str:
    """Return this package's version, with the commit where the package lies in a git checkout of its own.

    Example: ``0.2.0+g1a2b3c4d``, with ``.dirty`` where tracked files are changed.
    """
    commit = _commit(Path(__file__).parents[1])
    return f"{__version__}+g{commit}" if commit else __version__


def agent_version(agent: Agent, isolation: str) -> str:
    """Return the version that an agent's tool tells, asked in the sandbox of its turns; empty where it is unknown."""
    return version_line(agent.tool_version(isolation)) if isinstance(agent, VersionedAgent) else ""


def model_details(agent: Agent) -> Mapping[str, str]:
    """Return what is known of an agent's model beyond its name; empty without a model."""
    return agent.model_details() if isinstance(agent, ModelAgent) else {}


def machine_findings() -> Mapping[str, str]:
    """Return the kernel, the machine and bubblewrap, by the names that the record has them by."""
    system = os.uname()
    facts = {"kernel": f"{system.sysname} {system.release}", "machine": system.machine, "bubblewrap": bwrap_version()}
    return {name: text for name, text in facts.items() if text}


def _commit(directory: Path) -> str:
    """Return the commit of a git checkout that tracks a package's directory; empty where git can't tell."""
    # A package that is installed below somebody's checkout is not tracked by it.
    if not _git(directory, "ls-files", "version.py"):
        return ""
    return _git(directory, "describe", "--always", "--abbrev=8", "--exclude=*", f"--dirty={DIRTY}")


def _git(directory: Path, *arguments: str) -> str:
    """Return the line that git prints; empty where it fails, is missing, or doesn't trust the directory's owner."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments],  # noqa: S607 - the user's git
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
            env={**environment, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            timeout=GIT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return version_line(done.stdout) if not done.returncode else ""
