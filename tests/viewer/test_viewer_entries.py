"""The viewer's pages of entries and experiments, comparisons of many runs, and filters of the list of runs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_viewer_reading import run_ids, wide, write_run

from browsers import met
from diagnosed import known_run, recorded
from evopolicygym.core.event import RunOpened
from evopolicygym.records import atomic
from evopolicygym.records.labels import RunLabels, write_labels
from evopolicygym.records.reader import read_run
from evopolicygym.viewer.site.pages import Pages, write_single_file
from evopolicygym.viewer.site.serving import ServedViewer
from viewed import HOSTILE

pytestmark = [pytest.mark.nightly, pytest.mark.made_up]

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Write three runs of one entry and one of another."""
    for seed in range(3):
        write_run(tmp_path / "runs" / f"first{seed}", "first", seed)
    write_run(tmp_path / "runs" / "second", "second")
    identity = read_run(tmp_path / "runs" / "second").state.opened.experiment
    atomic.write_text(tmp_path / "runs" / "experiment.json", json.dumps({"experiment": identity}))
    return tmp_path / "runs"


@pytest.mark.parametrize("form", ["served", "file"])
@pytest.mark.parametrize("width", [1440, 390])
def test_an_entry_and_its_experiment(chromium: "Browser", runs: Path, form: str, width: int) -> None:
    """The leaderboard leads to an entry, a run to its experiment; both list the runs and fit the window."""
    write_single_file(runs.parent / "runs.html", Pages([runs]))
    with ServedViewer([runs]) as viewer:
        address = viewer.entrance if form == "served" else (runs.parent / "runs.html").as_uri()
        with met(chromium, address, width=width) as found:
            found.open("#/", ".board table")
            found.page.click("[aria-label=Leaderboard] td a:has-text('command first')")
            found.page.wait_for_selector("[aria-label=Edits] td")
            assert found.page.locator("[aria-label=Runs] tbody tr").count() == 3
            assert found.page.locator(".chart .average").count() == 1
            assert wide(found) <= 0
            found.page.click("[aria-label=Runs] tbody a >> nth=0")
            found.page.wait_for_selector(".submissions")
            assert found.page.inner_text(".facts a[href*='#/experiment/']") == "experiment"
            found.page.click(".facts a[href*='#/experiment/']")
            found.page.wait_for_selector("[aria-label='Tasks by entries'] td")
            assert found.page.locator("[aria-label=Runs] tbody tr").count() == 4
            assert found.page.inner_text("main").count("command second on toy: 2") == 1
            assert wide(found) <= 0


def test_filters_are_in_the_address(chromium: "Browser", runs: Path) -> None:
    """A choice filters the runs and is in the address, which opens the same list; c clears all."""
    write_labels(runs / "second", RunLabels("the other", ("slow",), "a note"))
    with ServedViewer([runs]) as viewer, met(chromium, viewer.entrance) as found:
        rows = found.page.locator("[aria-label=Runs] tbody tr")
        found.open("#/", "[aria-label=Runs] td")
        found.page.select_option("[aria-label='Runs by entry']", "command first")
        found.until("document.querySelectorAll('[aria-label=Runs] tbody tr').length === 3")
        assert "entry=command+first" in found.page.url
        assert "3 of 4 runs" in found.page.inner_text(".filters")
        found.page.reload()
        found.page.wait_for_selector("[aria-label=Runs] td")
        assert rows.count() == 3
        found.page.evaluate("document.activeElement.blur()")
        found.page.keyboard.press("c")
        found.until("document.querySelectorAll('[aria-label=Runs] tbody tr').length === 4")
        assert "entry=" not in found.page.url
        found.page.select_option("[aria-label='Runs by tag']", "slow")
        found.until("document.querySelectorAll('[aria-label=Runs] tbody tr').length === 1")
        assert "the other" in found.page.inner_text("[aria-label=Runs] tbody")


def test_any_number_of_runs_is_compared(chromium: "Browser", runs: Path) -> None:
    """Ticked runs are compared with the first; entries are by their names; too many curves are not all drawn."""
    for seed in range(3, 14):
        write_run(runs / f"first{seed}", "first", seed)
    with ServedViewer([runs]) as viewer, met(chromium, viewer.entrance) as found:
        found.open("#/", "[aria-label=Runs] td")
        for box in found.page.locator("[aria-label=Runs] tbody input").all():
            box.check()
        found.page.click("p.compare a")
        found.page.wait_for_selector("[aria-label=Scores] td")
        assert found.page.locator("[aria-label=Scores] tbody tr").count() == len(run_ids(viewer)) == 15
        assert found.page.locator("[aria-label=Scores] tbody td a[href*='#/compare/']").count() == 14
        assert found.page.locator(".toomany").count() == 1
        found.open("#/", "[aria-label=Leaderboard] td")
        for box in found.page.locator("[aria-label=Leaderboard] tbody input").all():
            box.check()
        found.page.click("p.comparison a")
        found.page.wait_for_selector("[aria-label=Tasks] td")
        assert found.page.locator("[aria-label=Entries] tbody tr").count() == 2


def test_a_hostile_entry_is_text(chromium: "Browser", tmp_path: Path) -> None:
    """A name of markup is shown as it is on its own page, and so is an experiment's id, slashes and all."""
    opened, *events = known_run()
    assert isinstance(opened, RunOpened)
    write_run(tmp_path / "runs" / "hostile", HOSTILE, events=[replace(opened, experiment=f"a/../{HOSTILE}"), *events])
    with ServedViewer([tmp_path / "runs"]) as viewer, met(chromium, viewer.entrance) as found:
        found.open("#/", ".board table")
        found.page.click("[aria-label=Leaderboard] td a >> nth=0")
        found.page.wait_for_selector("h1:has-text('onerror')")
        found.page.wait_for_selector("[aria-label=Runs] td")
        assert "owned" not in found.page.title() or "onerror" in found.page.title()
        found.page.click("[aria-label=Runs] td a[href*='#/experiment/']")
        found.page.wait_for_selector("[aria-label='Tasks by entries'] td")
        assert "a/../" in found.page.inner_text("h1")
        assert "onerror" in found.page.inner_text("h1")


@pytest.mark.parametrize(("repeats", "cases_differ", "expected"), [(False, False, 2), (True, True, 0), (None, None, 0)])
def test_a_run_says_what_its_environment_lacks(
    chromium: "Browser", tmp_path: Path, *, repeats: bool | None, cases_differ: bool | None, expected: int
) -> None:
    """Beside a score stands that it can't be replayed, and that its cases may all be one."""
    opened, *events = known_run()
    assert isinstance(opened, RunOpened)
    recorded(tmp_path / "run", [replace(opened, repeats=repeats, cases_differ=cases_differ), *events])
    with ServedViewer([tmp_path]) as viewer, met(chromium, viewer.entrance) as found:
        (place,) = viewer.documents.index.directories()
        found.open(f"#/run/{place}", ".submissions")

        assert found.page.locator(".ended.bad").count() == expected
