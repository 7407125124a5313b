"""The rule for gate tests is checked by `tests/support/gate_rule.py`."""

from pathlib import Path

from gate_rule import problems

WAITS = """
import subprocess, threading as th, time
from time import sleep as nap

def test_waits():
    time.sleep(1)
    nap(1)
    th.Timer(1, print)
    subprocess.run([], timeout=59.5)
"""
MAY_WAIT = """
import time
import pytest

def test_has_a_breaker(process):
    process.wait(timeout=60)

@pytest.mark.nightly
def test_waits():
    time.sleep(1)

@pytest.mark.tools
class TestTools:
    def test_waits(self):
        time.sleep(1)
"""


def test_waiting_for_an_amount_of_time_is_found(tmp_path: Path) -> None:
    """Each call of `sleep` and `Timer` and each short timeout is found, by whatever name."""
    file = tmp_path / "test_waits.py"
    file.write_text(WAITS)

    assert [line.split(":")[1] for line in problems(file)] == ["6", "7", "8", "9"]


def test_nightly_tests_may_wait(tmp_path: Path) -> None:
    """Tests, classes and modules that are marked may wait, and a timeout of a minute is a breaker."""
    file = tmp_path / "test_may_wait.py"
    file.write_text(MAY_WAIT)
    module = tmp_path / "test_nightly.py"
    module.write_text(f"{WAITS}\nimport pytest\npytestmark = [pytest.mark.slow, pytest.mark.nightly]\n")

    assert [*problems(file), *problems(module)] == []
