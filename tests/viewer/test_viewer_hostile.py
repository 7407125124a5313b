"""Hostile run directories: the viewer answers, serves nothing from outside, and runs nothing of theirs."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browsers import Met, met
from evopolicygym.viewer.documents.overview import RunIndex
from evopolicygym.viewer.site.document_cache import Episodes
from evopolicygym.viewer.site.pages import Pages, write_pages
from evopolicygym.viewer.site.serving import ServedViewer
from hostile_runs import CANARY, HOSTILE_RUNS, SECRET, lay_hostile_runs
from viewed import asked

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EPISODES = ("train-0-0", "train-1-1", "validation-0", "held_out-0")
OF_A_RUN = (
    "", "/edits", "/pulse", "/transcript/0", *(f"/submission/{index}" for index in range(5)), "/source/0", "/source/1",
    "/change/1/starter", "/change/3/0", *(f"/episode/{name}" for name in EPISODES),
)  # fmt: skip
CHECKED = {200, 404, 422}
SAFE = {"application/json", "video/mp4"}
ROUTES = (
    "", "/1/change", "/1/change/source", "/1/feedback", "/1/transcript", "/1/episodes", "/2/feedback",
)  # fmt: skip


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedViewer]:
    """Serve all hostile runs."""
    with ServedViewer([lay_hostile_runs(tmp_path_factory.mktemp("hostile"))]) as served:
        yield served


def _ids(viewer: ServedViewer, name: str) -> list[str]:
    """Return the ids of a hostile directory's runs."""
    return [place.id for place in viewer.documents.index.places().values() if Path(place.shown).parts[0] == name]


@pytest.mark.parametrize("name", sorted(HOSTILE_RUNS))
def test_a_hostile_run_is_answered_in_good_order(viewer: ServedViewer, name: str) -> None:
    """Every document and film of it is JSON, a film, or a refusal that is JSON, and holds nothing from outside."""
    ids = _ids(viewer, name)
    paths = [f"/data/run/{run}{of}.json" for run in ids[:4] for of in OF_A_RUN]
    paths += [f"/data/run/{run}.json" for run in ids[4:]]
    paths += [f"/film/{run}/{episode}.mp4" for run in ids[:4] for episode in EPISODES]
    wrong = []
    for path in paths:
        answer = asked(viewer, path)
        headers = answer.headers
        good = (
            answer.status in CHECKED
            and headers["content-type"].partition(";")[0] in SAFE
            and headers["x-content-type-options"] == "nosniff"
            and "default-src 'self'" in headers["content-security-policy"]
            and SECRET.encode() not in answer.body
        )
        wrong += [] if good else [(path, answer.status, headers.get("content-type"), answer.body[:300])]

    assert wrong == []
    assert bool(ids) == (name != "link-whole")


def test_all_hostile_runs_share_a_list(viewer: ServedViewer) -> None:
    """The list, the leaderboard, the pages of tasks and comparisons are made, whatever lies among the runs."""
    listed = asked(viewer, "/data/runs.json").document
    known = [run["id"] for run in listed["runs"]]
    tasks = [f"/data/task/{task['name']}.json" for task in listed["tasks"]]
    answers = [
        asked(viewer, path) for path in ("/data/suite.json", *tasks, f"/data/compare/{known[0]}/{known[1]}.json")
    ]

    assert {answer.status for answer in answers} <= CHECKED
    assert answers[0].status == 200
    assert len(listed["runs"]) + len(listed["problems"]) == len(viewer.documents.index.places())
    assert not any(SECRET.encode() in answer.body for answer in answers)


@pytest.mark.nightly
@pytest.mark.parametrize("form", ["served", "static"])
def test_nothing_of_a_hostile_run_is_executed(chromium: "Browser", tmp_path: Path, form: str) -> None:
    """No page of theirs calls the canary, opens a dialog, or asks anybody else, served and from a disk."""
    runs = lay_hostile_runs(tmp_path)
    if form == "static":
        write_pages(tmp_path / "pages", Pages([runs], episodes=Episodes.ALL))
        _walk(chromium, (tmp_path / "pages" / "index.html").as_uri(), runs)
        return
    with ServedViewer([runs]) as viewer:
        _walk(chromium, viewer.entrance, runs)


def _walk(chromium: "Browser", address: str, runs: Path) -> None:
    places = RunIndex([runs]).places().values()
    routes = [
        f"#/run/{place.id}{tail}"
        for place in places
        for tail in (ROUTES if len(Path(place.shown).parts) == 1 else ("",))
    ]
    routes += [f"#/episode/{place.id}/train-0-0" for place in places if len(Path(place.shown).parts) == 1]
    with met(chromium, address) as found:
        called: list[str] = []
        found.page.expose_function(CANARY, lambda: called.append(found.page.url))
        found.page.on("dialog", lambda dialog: (called.append(dialog.message), dialog.dismiss()))
        for route in ("#/", "#/task/toy", *routes):
            found.open(route, "main h1")
            _check_links(found)
        assert called == []
        found.page.evaluate(f"{CANARY}()")
        assert len(called) == 1
        found.said[:] = [said for said in found.said if not _is_refusal(said)]


def _check_links(found: Met) -> None:
    """Demand that no link of a page is a script."""
    links = found.page.evaluate("[...document.querySelectorAll('main a')].map((one) => one.getAttribute('href') ?? '')")
    assert [link for link in links if link.strip().lower().startswith(("javascript:", "data:"))] == []
    assert found.page.locator("main script, main iframe, main img").count() == 0


def _is_refusal(said: str) -> bool:
    return any(code in said for code in ("404", "422", "ERR_"))
