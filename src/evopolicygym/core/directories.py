"""The user's directories: runs, secrets and marks, packs, caches."""

import os
from pathlib import Path
from tempfile import TemporaryFile

from evopolicygym.core.errors import StorageError, UsageError

DEFAULT_RUNS = Path("runs")
"""Default directory of runs, relative to the working directory."""
HINT = "Set XDG_STATE_HOME=DIR to a writable directory; the default is .local/state in your HOME."


def state_directory() -> Path:
    """Return the directory of secrets, in ``$XDG_STATE_HOME/evopolicygym`` (default: below ``~/.local/state``).

    Raises ``UsageError`` if the user has no home.
    """
    base = os.environ.get("XDG_STATE_HOME")
    try:
        return Path(base or Path.home() / ".local" / "state") / "evopolicygym" / "experiments"
    except RuntimeError as error:
        raise UsageError(
            f"Missing state directory: neither HOME nor the system's list of users names a home. {HINT}"
        ) from error


def neutral_directory() -> Path:
    """Return the directory of workspaces whose paths say nothing of their runs; raise as ``state_directory`` does."""
    return state_directory().with_name("workspaces")


def data_directory() -> Path:
    """Return the directory of packs, ``$XDG_DATA_HOME/evopolicygym`` (default: below ``~/.local/share``).

    Raises ``UsageError`` if the user has no home.
    """
    base = os.environ.get("XDG_DATA_HOME")
    try:
        return Path(base or Path.home() / ".local" / "share") / "evopolicygym"
    except RuntimeError as error:
        raise UsageError(
            "Missing data directory: neither HOME nor the system's list of users names a home. Set XDG_DATA_HOME=DIR "
            "to a writable directory."
        ) from error


def cache_directory() -> Path:
    """Return the directory of caches, ``$XDG_CACHE_HOME/evopolicygym`` (default: below ``~/.cache``).

    Raises ``UsageError`` if the user has no home.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(base or Path.home() / ".cache") / "evopolicygym"
    except RuntimeError as error:
        raise UsageError(
            "Missing cache directory: neither HOME nor the system's list of users names a home. Set XDG_CACHE_HOME=DIR."
        ) from error


def refuse_unwritable(directory: Path) -> None:
    """Create a directory below the state directory; raise ``UsageError`` if it can't be written.

    A file is written, since permissions alone don't tell: root may write anywhere, except on a read-only disk.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise UsageError(
            f"Your state directory {directory} can't be written ({error.strerror}); secrets and marks of runs are "
            f"stored there. {HINT}"
        ) from error


def not_kept(what: str, error: OSError) -> StorageError:
    """Return the error for something that can't be written to the state directory."""
    return StorageError(f"{what} can't be written to your state directory: {error.strerror or error}. {HINT}")
