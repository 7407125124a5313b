"""The checks of trackers, exporters, figures and diagnostics: what ships passes, and each broken contract is named."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym.checks import diagnostic, exporter, figure, played_run, tracker
from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.errors import UnknownName
from places import ROOT
from shell import Shell

RECORD = ROOT / "results" / "examples" / "outside" / "key_corridor"
MODULES = (tracker, exporter, figure, diagnostic)
CHECKS = {
    "tracker": evopolicygym.check_tracker,
    "exporter": evopolicygym.check_exporter,
    "figure": evopolicygym.check_figure,
    "diagnostic": evopolicygym.check_diagnostic,
}

MEASURES = ["measures a run", "measures a run without submissions", "sums up any number of runs"]


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the checks read a record that ships instead of a run of their own, which takes seconds."""
    (shipped,) = RECORD.iterdir()

    @contextmanager
    def copied() -> Iterator[Path]:
        root = tmp_path_factory.mktemp("checked") / "runs" / shipped.name
        shutil.copytree(shipped, root)
        yield root

    for module in MODULES:
        monkeypatch.setattr(module, "played_run", copied)


def failed(findings: tuple[CheckResult, ...]) -> list[str]:
    """Return the names of the findings that fail."""
    return [finding.name for finding in findings if not finding.ok]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("kind", "name", "broken"),
    [
        ("tracker", "odd_trackers:Lines", []),
        ("tracker", "odd_trackers:Raises", ["a run that stops", "the rest of it"]),
        ("tracker", "odd_trackers:nothing", ["loads"]),
        ("exporter", "csv", []),
        ("exporter", "minari", []),
        ("exporter", "odd_parts:NoExporter", ["loads"]),
        ("exporter", "odd_parts:NoFiles", ["writes"]),
        ("exporter", "odd_parts:WrongPaths", ["writes"]),
        ("exporter", "odd_parts:Incomplete", ["writes"]),
        ("exporter", "odd_parts:Grows", ["replaces"]),
        ("exporter", "odd_parts:Keeps", ["gives up"]),
        ("figure", "odd_parts:NO_DRAWING", ["loads"]),
        ("figure", "odd_parts:UNTITLED", ["loads"]),
        ("figure", "odd_parts:NEEDY", ["loads"]),
        ("figure", "odd_parts:FAILS_WITHOUT_RUNS", ["draws none"]),
        ("figure", "odd_parts:CHANGES", ["draws a run", "draws none"]),
        ("diagnostic", "budget", []),
        ("diagnostic", "odd_parts:NO_DIAGNOSTIC", ["loads"]),
        ("diagnostic", "odd_parts:NEEDS_SUBMISSIONS", ["measures a run without submissions"]),
        ("diagnostic", "odd_parts:NO_DATACLASS", MEASURES),
        ("diagnostic", "odd_parts:NO_TABLE", MEASURES[:2]),
        ("diagnostic", "odd_parts:OTHER_NAMES", ["sums up any number of runs"]),
    ],
)
def test_each_broken_contract_is_named(kind: str, name: str, broken: list[str]) -> None:
    """A part that keeps its contract passes; of another, the findings that fail are those of what it breaks."""
    if name == "minari":
        pytest.importorskip("minari")

    assert failed(CHECKS[kind](name)) == broken


@pytest.mark.parametrize("kind", CHECKS)
def test_an_unknown_part_is_refused(kind: str, shell: Shell) -> None:
    """A name that no part has is an invalid request, and no run is played for it."""
    with pytest.raises(UnknownName):
        CHECKS[kind]("nobody")

    assert shell("check", kind, "nobody").code == 2


@pytest.mark.nightly
def test_a_check_plays_a_run_of_its_own() -> None:
    """The run that checks read is finished, has two submissions, and is gone afterwards."""
    context: Callable[[], AbstractContextManager[Path]] = played_run.played_run
    with context() as root:
        run = evopolicygym.load_run(root)

        assert (run.is_finished, len(run.submissions)) == (True, 2)
    assert not root.exists()
