"""A run that was played with other simulators than the shipped anchors says so, and is played all the same."""

from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.records.writer import RunWriter
from evopolicygym.specs import catalog
from evopolicygym.specs.measured_anchors import MEASURED_WITH, other_simulators
from fakes import opening, task, whole_run
from records_of_runs import changed, real_document, write
from shell import Shell

pytestmark = pytest.mark.made_up

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


def test_the_versions_behind_the_anchors_are_those_of_the_lock() -> None:
    """The tested versions, of which the shipped numbers are, are said in one way."""
    lock = dict(
        line.lower().split("==") for line in CONSTRAINTS.read_text("utf-8").splitlines() if not line.startswith("#")
    )

    assert {name: lock[name] for name in MEASURED_WITH} == MEASURED_WITH


@pytest.mark.parametrize("name", ["acrobot", "no_such_task"])
def test_only_shipped_tasks_have_measured_versions(name: str) -> None:
    """The anchors of a task of one's own are of no version that is known here."""
    fingerprint = catalog.spec_sha256(replace(catalog.load("acrobot"), objective="Another text."))

    assert other_simulators(name, fingerprint, {"gymnasium": "0"}) == ()


@pytest.mark.parametrize("version", [MEASURED_WITH["gymnasium"], "1.4.0"])
def test_a_leaderboard_names_the_other_version(tmp_path: Path, shell: Shell, version: str) -> None:
    """The note stands below tables of runs with another Gymnasium, and below no others."""
    document = changed(real_document(tmp_path / "real"), "acrobot", "good", [-90.0, -91.0])
    document["fingerprint"] |= {
        "versions": {"python": "3", "gymnasium": version},
        "spec_sha256": catalog.spec_sha256(catalog.load("acrobot")),
    }
    notes = shell.json("leaderboard", write(tmp_path / "runs", document))["notes"]

    assert any("gymnasium 1.4.0, not 1.3.0" in note for note in notes) is (version == "1.4.0")


@pytest.mark.parametrize("version", [MEASURED_WITH["gymnasium"], "1.4.0"])
def test_show_names_the_other_version(tmp_path: Path, shell: Shell, version: str) -> None:
    """A run's outcome says that the anchors beside its score are of another Gymnasium, and only then."""
    opened = opening(
        task=replace(task(), environment=catalog.load("acrobot")), versions={"python": "3", "gymnasium": version}
    )
    with RunWriter(tmp_path / "run", opened) as writer:
        for event in whole_run()[1:]:
            writer.record(event)
        writer.write_document()

    assert ("gymnasium 1.4.0, not 1.3.0" in shell.printed("show", tmp_path / "run")) is (version == "1.4.0")
