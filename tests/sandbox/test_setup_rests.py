"""A policy's process inherits nothing of what earlier episodes were given."""

from pathlib import Path

import pytest

from evopolicygym.checks.sandbox import attack
from playground import one_worker
from simulators import spec

LONG, SHORT = 99_000, 0
"""Seeds whose setups differ in length: what follows the shorter one would be the longer one's rest."""


@pytest.mark.parametrize("level", ["bubblewrap", "process"])
def test_no_rest_of_a_longer_setup(tmp_path: Path, level: str) -> None:
    """P69: the buffer in which setups arrive holds nothing after an episode's own."""
    with one_worker(level, spec("Plain"), tmp_path) as yard:
        played = yard.play(attack("P69").source, LONG, SHORT)

        assert [one.read() for one in played] == ["", ""]
