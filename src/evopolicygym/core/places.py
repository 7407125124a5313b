"""Where things lie that are this machine's user's: runs, and what no run's directory may hold.

Where things lie in a run's directory is described in ``records``.
"""

import os
from pathlib import Path

from evopolicygym.core.errors import StorageError

DEFAULT_RUNS = Path("runs")
"""Below this directory records go and are looked for, as seen from where the program starts."""


def state_directory() -> Path:
    """Return where secrets are kept: ``$XDG_STATE_HOME/evopolicygym``, by default below ``~/.local/state``."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "evopolicygym" / "experiments"


def not_kept(what: str, error: OSError) -> StorageError:
    """Return what is said where the state directory refuses what it has to hold."""
    return StorageError(
        f"{what} can't be kept in your state directory: {error}. It must be a directory that can be written; by "
        f"default it is below ~/.local/state, and XDG_STATE_HOME names another place."
    )
