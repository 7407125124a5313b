"""Where this machine's user keeps what no run's directory may hold. Where things lie in one is told in ``records``."""

import os
from pathlib import Path


def state_directory() -> Path:
    """Return where secrets are kept: ``$XDG_STATE_HOME/evopolicygym``, by default below ``~/.local/state``."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "evopolicygym" / "experiments"
