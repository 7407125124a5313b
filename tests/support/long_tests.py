"""Which tests take a second or more: a table in `long_tests.toml`, and what measures it anew.

`pytest --time-tests` puts there what it measured and leaves what it didn't run.
"""

import json
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

TABLE = Path(__file__).with_name("long_tests.toml")
HEAD = (
    "# Seconds of each test that takes a second or more, the longest of its cases; written by `pytest --time-tests`.\n"
)
LONG_S = 1.0
"""From how many seconds on a test stands in the table."""


def known() -> dict[str, float]:
    """Return the seconds of each test that is known to be long."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}


def without_case(nodeid: str) -> str:
    """Return the test of which this is a case."""
    return nodeid.partition("[")[0]


class Stopwatch:
    """Measures every test of a run, in the process that deals them out."""

    def __init__(self) -> None:
        self._cases = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a test's setup, call or teardown took."""
        self._cases[report.nodeid] += report.duration  # type: ignore[assignment] # seconds are no whole numbers

    def pytest_sessionfinish(self) -> None:
        """Write the table."""
        measured = defaultdict[str, float](float)
        for case, seconds in self._cases.items():
            measured[without_case(case)] = max(measured[without_case(case)], seconds)
        merged = {**known(), **measured}
        lines = [f"{json.dumps(name)} = {merged[name]:.1f}\n" for name in sorted(merged) if merged[name] >= LONG_S]
        TABLE.write_text(HEAD + "".join(lines), encoding="utf-8")
