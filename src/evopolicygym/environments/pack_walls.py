"""The walls of a pack's simulator here: what it can't change or read wherever it is made or played."""

import sys
from pathlib import Path

from evopolicygym.core.places import state_directory
from evopolicygym.packs.installation import packs_directory
from evopolicygym.packs.interpreter import PACKAGE
from evopolicygym.sandbox.confinement.simulator_walls import SimulatorWalls, simulator_walls


def pack_walls(writes_below: Path) -> SimulatorWalls:
    """Return the walls of a process that writes below a directory: packs, our Python and our code are read-only.

    The secrets in the state directory are hidden. ``writes_below`` can be written wherever it lies.
    """
    read_only = (packs_directory(), PACKAGE, Path(sys.prefix), Path(sys.base_prefix))
    return simulator_walls(read_only, state_directory(), writes_below)
