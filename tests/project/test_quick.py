"""What `make quick` runs: the tests of what a change touches, and some of each room where it touches none or all."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

import quick
from changed import FLOORS, OF_ALL, core, touched_by
from long_tests import known
from places import ROOT

ROOMS = {folder.name for folder in ROOT.glob("tests/*/") if list(folder.glob("test_*.py"))}


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("src/evopolicygym/judge/http.py", ["tests/judge", "tests/attacks", FLOORS]),
        ("src/evopolicygym/agents/builtin/codex.py", ["tests/agents", FLOORS]),
        ("src/evopolicygym/version.py", [FLOORS]),
        ("src/evopolicygym/no_such_room/file.py", [FLOORS]),
        ("tests/core/test_budget.py", ["tests/core/test_budget.py"]),
        ("tests/core/test_that_was_removed.py", []),
        ("tests/environments/released_returns.toml", ["tests/environments"]),
        ("docs/use/films.md", ["tests/project/test_docs.py"]),
        ("LICENSE", []),
        *((path, []) for path in sorted(OF_ALL)),
    ],
)
def test_a_change_has_its_tests(path: str, tests: list[str]) -> None:
    """A file of a room has the room's tests, a test itself, and what is of no room or of all has none."""
    assert touched_by([path]) == tests


def test_what_tests_share_has_the_tests_that_use_it() -> None:
    """A change of a module that tests share runs the tests that import it."""
    assert "tests/project/test_quick.py" in touched_by(["tests/support/changed.py"])
    assert "tests/project/test_outside_package.py" in touched_by(["tests/support/installed/outside/agent.py"])


def test_a_folder_stands_for_its_files() -> None:
    """A test is not named beside the folder in which it lies."""
    assert touched_by(["src/evopolicygym/core/run.py", "tests/core/test_budget.py"]) == ["tests/core", FLOORS]


def test_the_core_has_tests_of_each_room() -> None:
    """Where nothing was changed, there are tests of each room, and they exist."""
    chosen = core()

    assert {name.split("/")[1] for name in chosen} == ROOMS
    assert all((ROOT / name).is_file() for name in chosen)


def test_long_tests_are_tests() -> None:
    """What is known to take long is there."""
    gone = [
        name
        for name in known()
        if not (ROOT / (file := name.partition("::")[0])).is_file()
        or f"def {name.rpartition('::')[2]}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]

    assert gone == []


def items(*names: str) -> list[Any]:
    """Return tests as far as they are looked at here."""
    return [SimpleNamespace(nodeid=name) for name in names]


def test_the_fastest_come_first_and_what_does_not_fit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long tests run as far as they fit into the time together, each case for itself."""
    monkeypatch.setenv(quick.DEADLINE, "0")
    monkeypatch.setattr(quick, "known", lambda: {"long": quick.BUDGET_S / 2, "longer": quick.BUDGET_S})
    dropped: dict[str, list[Any]] = {}
    config: Any = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=dropped.update))
    chosen = items("longer", "long[1]", "long[2]", "fast")
    quick.Quick().pytest_collection_modifyitems(config, chosen)

    assert [one.nodeid for one in chosen] == ["fast", "long[1]", "long[2]"]
    assert [one.nodeid for one in dropped["items"]] == ["longer"]


@pytest.mark.parametrize(("left_s", "answer"), [(60.0, None), (-1.0, True)])
def test_no_test_is_begun_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch, left_s: float, answer: object) -> None:
    """Before that, all are; what the hook returns says that nobody else need run the test."""
    monkeypatch.setenv(quick.DEADLINE, str(time.monotonic() + left_s))

    assert quick.Quick().pytest_runtest_protocol(*items("fast")) is answer
