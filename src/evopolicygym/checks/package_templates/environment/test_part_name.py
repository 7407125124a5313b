"""The environment keeps its contract."""

import evopolicygym


def test_it_keeps_its_contract() -> None:
    """Its episodes are those that its texts describe, and repeat."""
    assert [finding for finding in evopolicygym.check_environment("part_name") if not finding.ok] == []
