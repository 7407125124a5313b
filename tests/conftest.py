"""Fixtures of all rooms. A test never touches the user's own state directory."""

import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from browsers import browser
from busy import busy
from evopolicygym.cli import console
from fakes import RunMaker
from ordinary_user import ordinary_user
from shell import Shell

if TYPE_CHECKING:
    from playwright.sync_api import Browser

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell leaves it to what it starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options for a busy machine and for random examples."""
    parser.addoption("--beside", type=int, default=0, metavar="N", help="have N programs compute beside the tests")
    parser.addoption("--random-examples", action="store_true", help="draw Hypothesis's examples anew in every run")


def pytest_configure(config: pytest.Config) -> None:
    """Choose one Hypothesis profile for all tests: no deadline, and the same examples in every run by default."""
    same = not config.getoption("--random-examples")
    settings.register_profile(
        "evopolicygym", deadline=None, derandomize=same, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("evopolicygym")


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """Keep the machine busy while tests run, from the one process that deals them out."""
    deals = not hasattr(session.config, "workerinput")
    with busy(session.config.getoption("--beside")) if deals else nullcontext():
        return (yield)


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have secrets kept below the test's own directory."""
    home = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def _data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have packs looked for below the test's own directory."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(autouse=True)
def _consoles() -> None:
    """Have each test print as wide as it says, and with warnings, not as the test before did."""
    console.out.cache_clear()
    console.err.cache_clear()
    console.hush(warnings=False)


@pytest.fixture
def new_run(tmp_path: Path) -> Iterator[RunMaker]:
    """Return what opens runs on the toy; they are closed when the test ends."""
    maker = RunMaker(tmp_path)
    with maker.stack:
        yield maker


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell of 120 columns that is no terminal."""
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(monkeypatch, capsys)


@pytest.fixture(scope="module")
def chromium() -> "Iterator[Browser]":
    """Start a browser for a file's tests; they are skipped where there is none."""
    with browser() as running:
        yield running


@pytest.fixture
def ordinary() -> list[str]:
    """Return the words before a command that run it as an ordinary user; the test is skipped where there are none."""
    return ordinary_user()
