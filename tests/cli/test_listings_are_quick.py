"""What lists names loads no library that playing takes: most of the time that a listing could take is theirs."""

import subprocess
import sys

import pytest

LISTED = """
import sys
from evopolicygym.cli.main import main
try:
    main()
except SystemExit as leaving:
    assert not leaving.code, leaving.code
print(*[one for one in ("numpy", "gymnasium", "matplotlib", "mujoco") if one in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize("listing", ["packs", "environments", "environments --all"])
def test_a_listing_loads_neither_numpy_nor_a_simulator(listing: str) -> None:
    """Names, texts and whether something is installed are read from files alone."""
    line = [sys.executable, "-c", LISTED, *listing.split()]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=120)

    assert done.stdout
    assert done.stderr.split() == []
