"""The figure keeps its contract."""

import evopolicygym


def test_it_keeps_its_contract() -> None:
    """It draws any runs, none included, and the same each time."""
    assert [finding for finding in evopolicygym.check_figure("part_name") if not finding.ok] == []
