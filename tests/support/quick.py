"""`pytest --quick`: the fastest tests first, no more long ones than fit, and none is begun when the time is up.

Which tests are long is known from `long_tests.py`; which are run at all is decided in `changed.py`.
"""

import os
import time
from bisect import bisect_right
from itertools import accumulate
from typing import Any

import pytest

from long_tests import known, without_case

BUDGET_S = 60.0
"""Seconds that the long tests may take together, on two processes."""
ENDS_AFTER_S = 45.0
"""Seconds from the start on in which a test may be begun."""
DEADLINE = "EVOPOLICYGYM_TESTS_DEADLINE"
"""Holds when that is, by the clock that all processes share."""


class Quick:
    """Chooses, sorts and ends the tests of a process."""

    def __init__(self) -> None:
        self._seconds = known()
        self._left_out = self._not_begun = 0
        os.environ.setdefault(DEADLINE, str(time.monotonic() + ENDS_AFTER_S))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Put the fastest first, and leave out what doesn't fit."""
        items.sort(key=self._takes)
        spent = list(accumulate(map(self._takes, items)))
        fitting = bisect_right(spent, BUDGET_S)
        self._left_out = len(items) - fitting
        config.hook.pytest_deselected(items=items[fitting:])
        del items[fitting:]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:  # noqa: ARG002 - the hook's own word
        """Begin no test when the time is up."""
        if time.monotonic() < float(os.environ[DEADLINE]):
            return None
        self._not_begun += 1
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand on what was left out."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput |= {"left_out": self._left_out, "not_begun": self._not_begun}

    def pytest_testnodedown(self, node: Any) -> None:
        """Take what another process left out: all were given the same tests, and each had its own to begin."""
        output = getattr(node, "workeroutput", {})
        self._left_out = output.get("left_out", 0)
        self._not_begun += output.get("not_begun", 0)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what was not run."""
        terminalreporter.write_line(
            f"Left out, as they take long: {self._left_out} cases; not begun after {ENDS_AFTER_S:g} s: "
            f"{self._not_begun}. `make test` runs all."
        )

    def _takes(self, item: pytest.Item) -> float:
        return self._seconds.get(without_case(item.nodeid), 0.0)
