"""Where things lie that are this machine's user's: runs, and what no run's directory may hold.

Where things lie in a run's directory is described in ``records``.
"""

import os
from pathlib import Path
from tempfile import TemporaryFile

from evopolicygym.core.errors import StorageError, UsageError

DEFAULT_RUNS = Path("runs")
"""Below this directory records go and are looked for, as seen from where the program starts."""
WHAT_WORKS = "XDG_STATE_HOME=DIR names a directory that can be written; by default it is .local/state in your HOME."


def state_directory() -> Path:
    """Return where secrets are kept: ``$XDG_STATE_HOME/evopolicygym``, by default below ``~/.local/state``.

    Raises ``UsageError`` where the user has no home.
    """
    base = os.environ.get("XDG_STATE_HOME")
    try:
        return Path(base or Path.home() / ".local" / "state") / "evopolicygym" / "experiments"
    except RuntimeError as error:
        raise UsageError(
            f"A state directory is needed, and neither HOME nor the system's list of users names a home. {WHAT_WORKS}"
        ) from error


def data_directory() -> Path:
    """Return where packs are kept: ``$XDG_DATA_HOME/evopolicygym``, by default below ``~/.local/share``.

    Raises ``UsageError`` where the user has no home.
    """
    base = os.environ.get("XDG_DATA_HOME")
    try:
        return Path(base or Path.home() / ".local" / "share") / "evopolicygym"
    except RuntimeError as error:
        raise UsageError(
            "A data directory is needed, and neither HOME nor the system's list of users names a home. "
            "XDG_DATA_HOME=DIR names a directory that can be written."
        ) from error


def refuse_unwritable(directory: Path) -> None:
    """Raise ``UsageError`` where nothing can be kept in a part of the state directory; it is made where it isn't there.

    It is tried, as rights alone say little: root writes everywhere, but not to a disk that is mounted to be read.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise UsageError(
            f"Your state directory {directory} has to keep this run's secrets and marks, and it can't be written: "
            f"{error.strerror}. {WHAT_WORKS}"
        ) from error


def not_kept(what: str, error: OSError) -> StorageError:
    """Return what is said where the state directory refuses what it has to hold."""
    return StorageError(
        f"{what} can't be kept in your state directory: {error}. It must be a directory that can be written. "
        f"{WHAT_WORKS}"
    )
