"""The viewer's pages leave their reader in peace, hide nothing, and fit where they are read: on a phone, on paper."""

import os
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browsers import Met, met
from diagnosed import closing, known_run, recorded
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.event import AgentEnded, AgentStarted, EpisodePlayed, Event, RunClosed, RunOpened
from evopolicygym.records import atomic
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord
from evopolicygym.viewer.documents.overview import RunIndex
from evopolicygym.viewer.site.document_cache import Episodes
from evopolicygym.viewer.site.pages import Pages, write_pages
from evopolicygym.viewer.site.serving import ServedViewer
from fakes import TIME

pytestmark = [pytest.mark.nightly, pytest.mark.made_up]

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LONG = "a-name-that-goes-on-" * 12
VALIDATION = {"a": [1.0, 3.0], "b": [0.0, 2.0], "d": [5.0, 7.0]}


def write_run(place: Path, name: str = "tuner", seed: int = 0, events: Sequence[Event] = ()) -> RunRecord:
    """Write the run that is known by hand as one of an agent of this name."""
    opened, *others = events or known_run()
    assert isinstance(opened, RunOpened)
    return recorded(place, [replace(opened, agent=AgentConfig("command", name), seed=seed), *others])


def write_runs(runs: Path, count: int) -> None:
    """Write runs with different scores."""
    beginning = list(takewhile(lambda event: not isinstance(event, RunClosed), known_run()))
    for number in range(count):
        events = closing(beginning, VALIDATION, [number, number + 0.5, number + 1])
        write_run(runs / f"run-{number}", seed=number, events=events)


def run_ids(viewer: ServedViewer) -> dict[str, str]:
    return {place.root.name: place.id for place in viewer.documents.index.directories().values()}


def sorted_by(found: Met, column: str) -> list[str]:
    """Sort the list of runs by a column; return its cells there, as they stand then."""
    table = found.page.locator("[aria-label=Runs] table")
    table.locator(f"th button:text-is('{column}')").click()
    place = table.locator("th").all_inner_texts().index(f"{column}") + 1
    return table.locator(f"tbody td:nth-child({place})").all_inner_texts()


def wide(found: Met) -> int:
    """Return by how many pixels a page is wider than its window."""
    return int(found.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def test_all_rows_are_sorted(chromium: "Browser", tmp_path: Path) -> None:
    """Of more runs than are shown the best of all come first, not the best of the latest."""
    write_runs(tmp_path / "runs", 230)
    with ServedViewer([tmp_path / "runs"]) as viewer, met(chromium, viewer.entrance) as found:
        found.open("#/", "[aria-label=Runs] td")
        scores = sorted_by(found, "score ± s.e.")
        assert len(scores) == 200
        assert scores[0].startswith("229.5")
        found.page.click("button:has-text('Show more'):visible")
        assert found.page.locator("[aria-label=Runs] tbody tr").count() == 230


def test_each_shape_is_seen(chromium: "Browser", tmp_path: Path) -> None:
    """Held-out dots of eight entries have ink, whatever their shape, and each row names its entry and seed."""
    for number in range(8):
        write_run(tmp_path / f"run{number}", f"agent{number}", seed=number)
    with ServedViewer([tmp_path]) as viewer, met(chromium, viewer.entrance) as found:
        found.open("#/task/toy", "svg .dot.faint")
        inked = found.page.evaluate(
            "[...document.querySelectorAll('.dot.faint')].map((one) => getComputedStyle(one)).filter((one) =>"
            " one.stroke !== 'none' && parseFloat(one.strokeWidth) > 0).length"
        )
        labels = found.page.locator("svg .rowlabel").all_text_contents()

        assert inked == found.page.locator(".dot.faint").count() == 24
        assert sorted(labels) == [f"command agent{number} {number}" for number in range(8)]


def test_no_page_shows_a_word_of_the_language(chromium: "Browser", tmp_path: Path) -> None:
    """An empty leaderboard, a page that isn't there and numbers that are as large as can be are no null and no NaN."""
    (tmp_path / "empty").mkdir()
    events = [
        replace(event, episode=replace(event.episode, episode_return=(-1) ** place * 1e308))
        if isinstance(event, EpisodePlayed)
        else event
        for place, event in enumerate(known_run())
    ]
    with ServedViewer([tmp_path / "empty"]) as viewer, met(chromium, viewer.entrance) as found:
        found.open("#/?tables=paper", ".board table")
        assert "null" not in found.page.inner_text("main")
        found.open("#/constructor", ".trouble")
        assert "constructor" in found.page.inner_text("main")
    write_run(tmp_path / "runs" / "large", events=events[:12])
    with ServedViewer([tmp_path / "runs"]) as viewer, met(chromium, viewer.entrance) as found:
        for route in (f"#/run/{run_ids(viewer)['large']}", "#/task/toy"):
            found.open(route, "main svg, main section")
            shown = found.page.content()
            assert [word for word in ("NaN", "Infinity", "undefined") if word in shown] == []


def test_a_live_run_is_read_in_peace(chromium: "Browser", tmp_path: Path) -> None:
    """While a run goes on, the chosen submission, an open section, the focus and a selection stay as they are."""
    lines = write_run(tmp_path / "whole").paths.journal.read_bytes().splitlines(keepends=True)
    live = RunPaths(tmp_path / "runs" / "live")
    live.root.mkdir(parents=True)
    live.journal.write_bytes(b"".join(lines[:7]))
    shutil.copytree(RunPaths(tmp_path / "whole").checkpoints, live.checkpoints)
    lock = atomic.lock_file(live.lock, "live")
    with ServedViewer([tmp_path / "runs"]) as viewer, met(chromium, viewer.entrance) as found:
        page = found.page
        found.open(f"#/run/{run_ids(viewer)['live']}/1/change", ".tabbody")
        page.click("details.lineage summary")
        page.evaluate("getSelection().selectAllChildren(document.querySelector('.panel h2'))")
        page.focus("#tab-feedback")
        found.until("!document.querySelector('details.lineage').open")
        page.wait_for_timeout(2500)
        with live.journal.open("ab") as file:
            file.write(b"".join(lines[7:12]))
        page.wait_for_selector(".submissions li >> nth=2")
        page.wait_for_timeout(2500)
        os.close(lock)

        assert page.evaluate("getSelection().toString()") == "Submission 1"
        assert page.evaluate("document.activeElement.id") == "tab-feedback"
        assert page.evaluate("document.querySelector('details.lineage').open") is False
        assert page.inner_text(".submissions [aria-current=true] .index") == "1"


def test_a_killed_run_is_not_being_played(chromium: "Browser", tmp_path: Path) -> None:
    """A run that no process plays says so, when it was last written to, and what resumes it."""
    record = write_run(tmp_path / "runs" / "killed")
    record.paths.journal.write_bytes(b"".join(record.paths.journal.read_bytes().splitlines(keepends=True)[:7]))
    record.paths.document.unlink()
    with ServedViewer([tmp_path / "runs"]) as viewer, met(chromium, viewer.entrance) as found:
        found.open(f"#/run/{run_ids(viewer)['killed']}", ".tag.bad")
        said = found.page.inner_text("main")
        found.open("#/", "[aria-label=Runs] .tag.bad")

        assert "being played" not in said
        assert f"evopolicygym resume {tmp_path}/runs/killed" in said
        assert "last activity" in said


def test_why_an_agent_ended_without_a_submission(chromium: "Browser", tmp_path: Path) -> None:
    """A run in which nothing was submitted tells how its agent ended."""
    opened, *_ = known_run()
    ends = [AgentStarted(TIME, 0), AgentEnded(TIME, 0, "crashed", "ModuleNotFoundError: no module")]
    write_run(tmp_path / "none", events=[opened, *ends])
    with ServedViewer([tmp_path]) as viewer, met(chromium, viewer.entrance) as found:
        found.open(f"#/run/{run_ids(viewer)['none']}", ".ends")

        assert "ModuleNotFoundError: no module" in found.page.inner_text(".ends")
        assert not found.page.is_visible(".split")


def test_static_pages_link_what_they_hold(chromium: "Browser", tmp_path: Path) -> None:
    """Where the steps of episodes were left out, no link leads to them; submissions and sources are there."""
    write_run(tmp_path / "runs" / "known")
    write_pages(tmp_path / "pages", Pages([tmp_path / "runs"], episodes=Episodes.NONE))
    (run,) = RunIndex([tmp_path / "runs"]).directories()
    with met(chromium, (tmp_path / "pages" / "index.html").as_uri()) as found:
        found.open(f"#/run/{run}/3/episodes", ".tabbody td")
        assert found.page.locator("a[href^='#/episode']").count() == 0
        found.open(f"#/run/{run}/1/change/source", ".row.one")
        assert "GAIN = 2" in found.page.inner_text(".tabbody")


def test_keys_in_tabs_and_diffs(chromium: "Browser", tmp_path: Path) -> None:
    """Arrows walk through tabs and keep the focus there; in a diff that has the focus they scroll."""
    write_run(tmp_path / "known")
    with ServedViewer([tmp_path]) as viewer, met(chromium, viewer.entrance) as found:
        page = found.page
        found.open(f"#/run/{run_ids(viewer)['known']}/1/change", ".row.plus")
        page.focus(".code")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        assert page.inner_text(".submissions [aria-current=true] .index") == "1"
        page.focus("#tab-change")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.id") == "tab-feedback"
        assert page.get_attribute("#tab-feedback", "aria-selected") == "true"
        page.keyboard.press("End")
        assert page.url.endswith("/1/episodes")
        assert page.locator("[role=tab][tabindex='0']").count() == 1


def test_back_leads_to_what_was_left(chromium: "Browser", tmp_path: Path) -> None:
    """Back from a run, the list is sorted and scrolled as it was."""
    write_runs(tmp_path / "runs", 60)
    with ServedViewer([tmp_path / "runs"]) as viewer, met(chromium, viewer.entrance) as found:
        page = found.page
        found.open("#/", ".board table")
        sorted_by(found, "seed")
        page.evaluate("window.scrollTo(0, 900)")
        page.wait_for_timeout(200)
        page.evaluate("document.querySelectorAll('[aria-label=Runs] tbody a[href^=\"#/run\"]')[20].click()")
        page.wait_for_selector(".submissions li")
        page.go_back()
        page.wait_for_selector(".board table")
        found.until("window.scrollY === 900")

        assert page.get_attribute("[aria-label=Runs] th[aria-sort]", "aria-sort") == "descending"


@pytest.mark.parametrize("width", [390, 1440])
def test_long_names_fit(chromium: "Browser", tmp_path: Path, width: int) -> None:
    """However long a name is, no page is wider than its window, and on a desk all columns of a table are in it."""
    write_run(tmp_path / "first", LONG)
    write_run(tmp_path / "second", f"{LONG}2")
    with ServedViewer([tmp_path]) as viewer, met(chromium, viewer.entrance, width=width) as found:
        one, other = sorted(run_ids(viewer).values())
        routes = {
            "#/run/nobody": ".trouble", f"#/run/{LONG}": ".trouble", "#/": ".board table", "#/task/toy": ".chart svg",
            f"#/run/{one}/1/change": ".row.plus", f"#/run/{one}/1/episodes": "td",
            f"#/compare/{one}/{other}": ".verdict",
        }  # fmt: skip
        too_wide = []
        for route, until in routes.items():
            found.open(route, until)
            too_wide += [route] if wide(found) > 0 else []
            if width > 1000 and found.page.locator(".scroll").count():
                over = found.page.evaluate(
                    "[...document.querySelectorAll('.scroll')].some((one) => one.scrollWidth > one.clientWidth)"
                )
                too_wide += [f"table of {route}"] if over else []
        found.said[:] = [said for said in found.said if "404" not in said]

        assert too_wide == []


def test_nothing_is_cut_on_paper(chromium: "Browser", tmp_path: Path) -> None:
    """In print, what scrolls on a screen is there as a whole, and controls are not."""
    record = write_run(tmp_path / "known", LONG)
    record.paths.logs.mkdir(exist_ok=True)
    record.paths.transcript.write_text("a long line of words " * 40 + "\nline\n" * 200)
    with ServedViewer([tmp_path]) as viewer, met(chromium, viewer.entrance) as found:
        page = found.page
        for route, until in (("change", ".row.plus"), ("transcript", ".said")):
            found.open(f"#/run/{run_ids(viewer)['known']}/1/{route}", until)
            page.emulate_media(media="print")
            cut = page.evaluate(
                "[...document.querySelectorAll('main, main *:not(option):not(select)')].filter((one) =>"
                " getComputedStyle(one).overflowY !== 'visible' && one.scrollHeight > one.clientHeight + 1)"
                ".map((one) => one.className || one.tagName)"
            )
            assert cut == []
            assert wide(found) <= 0
            assert not page.is_visible(".tools")
            page.emulate_media(media="screen")


def looks(found: Met, item: str) -> list[tuple[str, str]]:
    """Return the colour and the shape that stand before a name in a legend."""
    return found.page.evaluate(
        "(item) => [...document.querySelectorAll('.legend li')].filter((one) => one.textContent === item).map((one) =>"
        " ["
        "/\\bc\\d/.exec(one.querySelector('svg').outerHTML)[0],"
        " one.querySelector('path')?.getAttribute('d').replace(/[-\\d.]+/g, '') ?? 'circle'])",
        item,
    )


def test_an_entry_looks_the_same_on_all_pages(chromium: "Browser", tmp_path: Path) -> None:
    """Colour and shape of an entry stay, on the suite's page, filtered, on the task's, compared."""
    for number in range(4):
        write_run(tmp_path / f"run{number}", f"agent{number}", seed=number % 2)
    write_run(tmp_path / "again", "agent3", seed=1)
    with ServedViewer([tmp_path]) as viewer, met(chromium, viewer.entrance) as found:
        ids = run_ids(viewer)
        seen: list[Any] = []
        for route, until, item in (
            ("#/", ".strips svg", "command agent3"),
            ("#/?filter=agent3", ".strips svg", "command agent3"),
            ("#/task/toy", ".chart svg", "command agent3"),
            (f"#/compare/{ids['run1']}/{ids['run3']}", ".verdict", "B: command agent3, seed 1"),
        ):
            found.open("#/report", "h1")
            found.open(route, until)
            seen += looks(found, item)[:1]
        assert len(seen) == 4
        assert len({tuple(look) for look in seen}) == 1, seen
        found.open("#/task/toy", ".chart svg .average")
        assert found.page.locator("svg .spreadband").count() == 1


def test_a_submission_against_any_other(chromium: "Browser", tmp_path: Path) -> None:
    """A submission is compared with the starter, another and another run's, word by word, and its files are saved."""
    for name in ("first", "second"):
        write_run(tmp_path / name, name)
    with ServedViewer([tmp_path]) as viewer, met(chromium, viewer.entrance) as found:
        page = found.page
        ids = run_ids(viewer)
        found.open(f"#/run/{ids['first']}/1/change", ".row.plus")
        assert page.locator(".row mark").all_inner_texts() == ["1", "2"]
        page.check("text=side by side")
        page.wait_for_selector(".row.wide .plus")
        assert "GAIN = 1" in page.inner_text(".row.wide:has(.plus)")
        page.select_option("select", "starter")
        page.wait_for_selector("text=planner.py")
        assert page.url.endswith("/1/change/starter")
        page.select_option("select", f"{ids['second']}:3")
        page.wait_for_selector("text=weights.json")
        found.open(f"#/run/{ids['first']}/1/change/0", ".row.wide .plus")
        with page.expect_download() as saved:
            page.click("text=Download its files")
        with tarfile.open(saved.value.path()) as archive:
            policy = archive.extractfile("policy.py")
            assert policy is not None
            assert b"GAIN = 2" in policy.read()
            assert archive.getnames() == ["planner.py", "policy.py"]
