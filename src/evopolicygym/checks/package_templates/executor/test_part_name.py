"""The executor keeps its contract."""

import evopolicygym


def test_it_keeps_its_contract() -> None:
    """It plays the same episodes as this machine, bit for bit."""
    assert [finding for finding in evopolicygym.check_executor("part_name") if not finding.ok] == []
