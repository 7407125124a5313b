"""The exporter keeps its contract."""

import evopolicygym


def test_it_keeps_its_contract() -> None:
    """It writes complete files, the same each time, and none if it fails."""
    assert [finding for finding in evopolicygym.check_exporter("part_name") if not finding.ok] == []
