"""The diagnostic keeps its contract."""

import evopolicygym


def test_it_keeps_its_contract() -> None:
    """It measures any run, and has the same names for any number of runs."""
    assert [finding for finding in evopolicygym.check_diagnostic("part_name") if not finding.ok] == []
