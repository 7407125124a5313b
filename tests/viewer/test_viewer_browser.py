"""The viewer's pages in a real browser: they show what the record says, quietly, and ask nobody else."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browsers import met
from diagnosed import known_run, recorded
from evopolicygym.core.event import SubmissionCharged
from evopolicygym.records import atomic
from evopolicygym.records.paths import RunPaths
from evopolicygym.specs import catalog
from evopolicygym.viewer.site.serving import ServedViewer
from viewed import hostile_run, real_runs

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.made_up


@pytest.fixture(scope="module")
def played(chromium: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServedViewer, str, str]]:
    """Serve two real runs on cartpole; yield the site with the ids of the evolver's and the random agent's."""
    assert chromium.is_connected()
    runs = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(runs.parent / "state"))
        evolver, random = real_runs(runs)
    with ServedViewer([runs]) as viewer:
        ids = {place.root: place.id for place in viewer.documents.index.directories().values()}
        yield viewer, ids[evolver.root.resolve()], ids[random.root.resolve()]


@pytest.mark.nightly
def test_the_suite_is_sorted_and_filtered(chromium: "Browser", played: tuple[ServedViewer, str, str]) -> None:
    """A click on a column sorts by it, a filter leaves what it names, and the address tells both to somebody else."""
    viewer, _, _ = played
    with met(chromium, viewer.entrance) as found:
        page = found.page
        found.open("#/", "table")
        page.wait_for_selector(".board table")
        page.click(".board th button:text-is('rank score')")
        down = page.locator(".board tbody td:nth-child(4)").all_inner_texts()
        page.click(".board th button:text-is('rank score')")
        up = page.locator(".board tbody td:nth-child(4)").all_inner_texts()
        page.keyboard.press("/")
        page.keyboard.type("players")

        assert len(down) == 3
        assert up == down[::-1]
        assert page.locator(".board tbody tr").count() == 1
        assert "filter=players" in page.url
        assert "sort=rank" in page.url


def test_a_run_is_walked_through(chromium: "Browser", played: tuple[ServedViewer, str, str]) -> None:
    """Keys lead through submissions; the change, the feedback and the episodes of the chosen one are shown."""
    viewer, evolver, _ = played
    with met(chromium, viewer.entrance) as found:
        page = found.page
        found.open(f"#/run/{evolver}/0/change", ".code .row")
        page.keyboard.press("j")
        page.wait_for_selector(".row.minus")

        assert "return int(-obs[2] > 0)" in page.inner_text(".row.minus")
        assert "return int(obs[2] + obs[3] > 0)" in page.inner_text(".row.plus")
        assert page.locator(".submissions li").count() == page.locator("svg .submission").count() == 5
        page.keyboard.press("2")
        page.wait_for_selector(".printed pre")
        assert "env_meta" in page.inner_text(".printed pre >> nth=0")
        assert f"/run/{evolver}/1/feedback" in page.url
        page.click("svg .submission >> nth=4")
        page.wait_for_selector(".tabbody >> text=ValueError: no")
        assert page.is_visible(".tag.bad")
        page.keyboard.press("4")
        page.keyboard.press("[")
        page.wait_for_selector("text=Held-out")
        assert all(int(steps) > 0 for steps in page.locator(".tabbody td:nth-child(4)").all_inner_texts())
        page.keyboard.press("?")
        assert page.is_visible("dialog")


@pytest.mark.nightly
def test_an_episode_is_scrubbed(chromium: "Browser", played: tuple[ServedViewer, str, str]) -> None:
    """The cursor goes by keys, slider and pointer, and all plots tell their values there."""
    viewer, evolver, _ = played
    with met(chromium, viewer.entrance) as found:
        page = found.page
        found.open(f"#/episode/{evolver}/train-1-0", "canvas")
        page.keyboard.press("Shift+ArrowRight")
        assert page.inner_text(".where").startswith("step 10 of")
        assert "11.0" in page.inner_text(".series:nth-child(2) .now")
        page.fill(".scrub input", "3")
        assert page.inner_text(".where").startswith("step 3 of")
        page.hover(".canvas >> nth=0", position={"x": 1, "y": 20})
        assert page.inner_text(".where").startswith("step 0 of")
        inked = page.evaluate(
            "[...document.querySelectorAll('canvas')].filter((one) => new Uint32Array(one.getContext('2d')"
            ".getImageData(0, 0, one.width, one.height).data.buffer).some(Boolean)).length"
        )
        assert inked == page.locator("canvas").count() == 7


@pytest.mark.nightly
def test_a_step_has_an_address(chromium: "Browser", played: tuple[ServedViewer, str, str]) -> None:
    """The address names the step under the cursor; it opens there, is copied by a button, and Back leads to it."""
    viewer, evolver, _ = played
    with met(chromium, viewer.entrance) as found:
        page = found.page
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        base = f"#/episode/{evolver}/train-1-0"
        found.open(f"{base}?step=7", "canvas")
        found.until("document.querySelector('.where').textContent.startsWith('step 7 of')")
        for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
            page.keyboard.press(key)
        found.until("location.hash.endsWith('?step=8')")
        page.click("button:text-is('Copy address')")
        page.wait_for_selector("button:text-is('Copied')")
        assert page.evaluate("navigator.clipboard.readText()") == f"{viewer.address}/{base}?step=8"
        page.click(".facts a[href^='#/run']")
        page.wait_for_selector(".submissions li")
        page.go_back()
        page.wait_for_selector("canvas")
        found.until("document.querySelector('.where').textContent.startsWith('step 8 of')")
        page.keyboard.press("Shift+ArrowLeft")
        found.until(f"location.hash === '{base}'")
        for wrong in ("x", "-4", "9e99", "999999999"):
            found.open(f"{base}?step={wrong}", "canvas")
            page.wait_for_selector(".where:has-text('step')")


@pytest.mark.nightly
def test_two_runs_are_chosen_and_compared(chromium: "Browser", played: tuple[ServedViewer, str, str]) -> None:
    """Two runs are chosen in the list; their page tells the difference; the task's page has a curve for each."""
    viewer, evolver, random = played
    with met(chromium, viewer.entrance, width=390, scheme="dark") as found:
        page = found.page
        found.open("#/", "input[type=checkbox][aria-label^=Choose]")
        for box in page.locator("input[aria-label^=Choose]").all():
            box.check()
        page.click(".compare a")
        page.wait_for_selector(".verdict")
        assert page.locator(".chart svg g.c0 .dot, .chart svg g.c1 .dot").count() >= 3
        assert {evolver, random} <= set(page.url.split("/"))
        found.open("#/task/cartpole", "svg a")
        assert page.locator("svg a").count() == 4
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0
        page.keyboard.press("t")
        assert page.evaluate("document.documentElement.dataset.theme") == "light"


@pytest.mark.nightly
def test_what_is_not_there_is_said(chromium: "Browser", tmp_path: Path) -> None:
    """No runs at all, and a run that is gone: the pages say what to do."""
    with ServedViewer([tmp_path]) as viewer, met(chromium, viewer.entrance) as found:
        found.open("#/", ".nothing")
        assert "evopolicygym run acrobot" in found.page.inner_text("main")
        found.open("#/run/nope", ".trouble")
        assert "nope" in found.page.inner_text("main")
        found.said[:] = [one for one in found.said if "404" not in one]


def test_a_hostile_record_is_text(chromium: "Browser", tmp_path: Path) -> None:
    """Markup in an agent's name, in its files, its output and its transcript is shown as it is, and does nothing."""
    hostile_run(tmp_path / "run")
    with ServedViewer([tmp_path]) as viewer, met(chromium, viewer.entrance) as found:
        (place,) = viewer.documents.index.directories().values()
        for route, until in (
            ("#/", ".board td"),
            ("#/task/toy", "svg a"),
            (f"#/run/{place.id}/1/change", ".row.plus"),
            (f"#/run/{place.id}/1/feedback", ".printed"),
            (f"#/run/{place.id}/1/transcript", ".said"),
        ):
            found.open(route, until)
            assert "<img src=x onerror=" in found.page.inner_text("main"), route
            assert "owned" not in found.page.title().split("<")[0]
            assert found.page.locator("img, main script").count() == 0
            assert "\x1b" not in found.page.inner_text("main")


@pytest.mark.nightly
def test_the_lineage_of_a_run(chromium: "Browser", tmp_path: Path) -> None:
    """Each submission has a line to what it was made of, and is chosen by a click; its heading says what it is."""
    said = {"hypothesis": "slower is safer", "settings": {"speed": 4.6}}
    events = [
        replace(one, **said) if isinstance(one, SubmissionCharged) and one.submit_index == 4 else one
        for one in known_run()
    ]
    recorded(tmp_path / "runs" / "known", events)
    with ServedViewer([tmp_path / "runs"]) as viewer, met(chromium, viewer.entrance) as found:
        (place,) = viewer.documents.index.directories().values()
        found.open(f"#/run/{place.id}", "details.lineage svg")
        found.page.locator("details.lineage .node").last.press("Enter")

        assert found.page.locator("details.lineage path.edge").count() == 5
        assert found.page.locator("details.lineage .edit.revert").count() == 2  # one of them in the legend
        assert found.page.locator("details.lineage a.node .failure").count() == 1
        heading = found.page.inner_text(".panel")
        assert all(words in heading for words in ("a return to submission 0", "slower is safer", "speed = 4.6"))


@pytest.mark.nightly
def test_a_live_run_is_followed(chromium: "Browser", tmp_path: Path) -> None:
    """What a run adds to its journal shows by itself, up to its score."""
    events = known_run()
    whole = recorded(tmp_path / "whole", events)
    lines = whole.paths.journal.read_bytes().splitlines(keepends=True)
    live = RunPaths(tmp_path / "runs" / "live")
    _write(live.journal, b"".join(lines[:7]).decode())
    lock = atomic.lock_file(live.lock, "live")
    with ServedViewer([tmp_path / "runs"]) as viewer, met(chromium, viewer.entrance) as found:
        (place,) = viewer.documents.index.directories().values()
        found.open(f"#/run/{place.id}", ".tag.live")
        before = found.page.locator(".submissions li").count()
        found.page.wait_for_timeout(2500)
        with live.journal.open("ab") as file:
            file.write(b"".join(lines[7:]))
        found.page.wait_for_selector(".score .big")
        os.close(lock)

        assert before == 2
        assert found.page.locator(".submissions li").count() == 5
        assert found.page.inner_text(".score .big") == "5.00"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.nightly
def test_no_two_entries_look_the_same(chromium: "Browser", tmp_path: Path) -> None:
    """Of eleven entries each has a colour and shape of its own, and their figures stand in words beside the marks."""
    recorded(tmp_path / "runs" / "known", known_run(catalog.load("acrobot")))
    with ServedViewer([tmp_path / "runs"]) as viewer, met(chromium, viewer.entrance) as found:
        found.open("#/?tables=paper,anchors,references,baselines", ".strips svg")
        looks = found.page.locator(".strips ~ .legend svg").evaluate_all("(all) => all.map((one) => one.outerHTML)")
        said = found.page.get_attribute(".strips svg >> nth=0", "aria-label") or ""

    assert len(set(looks)) == len(looks) >= 11
    assert [one for one in ("acrobot: ", "reference 1.00, rank 1", "GPT-5.5 (Codex) ") if one not in said] == [], said
