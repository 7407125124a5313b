"""The tracker keeps its contract."""

import evopolicygym


def test_it_keeps_its_contract() -> None:
    """It logs a run, and is closed with its results."""
    assert [finding for finding in evopolicygym.check_tracker("part_name") if not finding.ok] == []
