"""Fixtures of all rooms. A test never touches the user's own state directory."""

import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from browsers import browser
from busy import busy
from evopolicygym.cli import output
from evopolicygym.core import directories
from fakes import RunMaker
from made_up import take_made_up_runs
from ordinary_user import ordinary_user
from played_runs import PlayedRun, play_at
from roomy_limits import raise_limits, restore_limits
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


@pytest.fixture(autouse=True, scope="session")
def _roomy_limits() -> Iterator[None]:
    """Raise limits of ours that no test is about; one that is sets its limit itself, or uses ``real_limits``."""
    with pytest.MonkeyPatch.context() as patch:
        raise_limits(patch)
        yield


@pytest.fixture
def real_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the limits as users have them."""
    restore_limits(monkeypatch)


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
def _cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the index of measurements kept below the test's own directory."""
    monkeypatch.setattr(directories, "cache_directory", lambda: tmp_path / "cache")


@pytest.fixture(autouse=True, scope="module")
def _made_up_runs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have made-up runs taken in a module of tests that says so."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("made_up"):
            take_made_up_runs(patch)
        yield


@pytest.fixture(autouse=True)
def _consoles() -> None:
    """Have each test print as wide as it says, and with warnings, not as the test before did."""
    output.out.cache_clear()
    output.err.cache_clear()
    output.set_quiet(warnings=False)


@pytest.fixture
def new_run(tmp_path: Path) -> Iterator[RunMaker]:
    """Return what opens runs on the toy; they are closed when the test ends."""
    maker = RunMaker(tmp_path)
    with maker.stack:
        yield maker


@pytest.fixture(scope="session")
def run_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], PlayedRun]]:
    """Return what gives the whole run of a sandbox backend, which is played once a session; no test may change it."""
    runs: dict[str, tuple[PlayedRun, str]] = {}

    def run_of(level: str) -> PlayedRun:
        if level not in runs:
            run = play_at(level, tmp_path_factory.mktemp(f"run-{level}"))
            runs[level] = run, run.digest()
        return runs[level][0]

    yield run_of
    assert [level for level, (run, before) in runs.items() if run.digest() != before] == [], "a test changed a run"


@pytest.fixture(scope="session")
def played_run(run_at: Callable[[str], PlayedRun]) -> PlayedRun:
    """Return the whole run in the strongest sandbox backend here; no test may change it."""
    return run_at("auto")


@pytest.fixture
def at_home(played_run: PlayedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be the user who played the whole run."""
    monkeypatch.setenv("XDG_STATE_HOME", str(played_run.state_home))


@pytest.fixture
def run_copy(played_run: PlayedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayedRun:
    """Return a copy of the whole run that the test may change, and be the user who played it."""
    run = played_run.copied(tmp_path / "played")
    monkeypatch.setenv("XDG_STATE_HOME", str(run.state_home))
    return run


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
