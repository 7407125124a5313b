"""Fixtures of all rooms. A test never touches the user's own state directory."""

import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browsers import browser
from busy import busy
from evopolicygym.cli import console
from fakes import RunMaker
from long_tests import Stopwatch
from ordinary_user import ordinary_user
from quick import Quick
from shell import Shell

if TYPE_CHECKING:
    from playwright.sync_api import Browser

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell leaves it to what it starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take how many programs compute beside the tests, as on a machine that others use too, and which are to be run."""
    parser.addoption("--beside", type=int, default=0, metavar="N", help="have N programs compute beside the tests")
    parser.addoption("--quick", action="store_true", help="the fastest tests first, for a minute")
    parser.addoption("--time-tests", action="store_true", help="write down which tests take a second or more")


def pytest_configure(config: pytest.Config) -> None:
    """Have tests chosen and measured where that is asked for."""
    if config.getoption("--quick"):
        config.pluginmanager.register(Quick())
    if config.getoption("--time-tests") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Stopwatch())


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
