"""The sandbox backend keeps its contract."""

import evopolicygym


def test_it_keeps_its_contract() -> None:
    """It withstands the attacks that it promises to withstand; this takes a minute."""
    assert [finding for finding in evopolicygym.check_sandbox("part_name") if not finding.ok] == []
