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
from viewed import Answer, asked

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.made_up

EPISODES = ("train-0-0", "held_out-0")
DOCUMENTS = (
    "", "/edits", "/pulse", "/transcript/0", *(f"/submission/{index}" for index in range(3)), "/source/1",
    "/change/1/starter", "/change/1/0", *(f"/episode/{name}" for name in EPISODES),
)  # fmt: skip
"""Ends of the names of a run's documents."""
STATUSES = {200, 404, 422}
TYPES = {"application/json", "video/mp4"}
TABS = ("", "/1/change", "/1/change/source", "/1/feedback", "/1/transcript", "/1/episodes", "/2/feedback")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lay all hostile runs."""
    return lay_hostile_runs(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def viewer(runs: Path) -> Iterator[ServedViewer]:
    """Serve all hostile runs."""
    with ServedViewer([runs]) as served:
        yield served


def test_hostile_runs_are_answered_in_good_order(viewer: ServedViewer) -> None:
    """Every document and film is JSON, a film, or a refusal that is JSON, and holds nothing from outside."""
    ids: dict[str, list[str]] = {name: [] for name in HOSTILE_RUNS}
    for place in viewer.documents.index.directories().values():
        ids[Path(place.shown).parts[0]].append(place.id)
    wrong = []
    for found in ids.values():
        paths = [f"/data/run/{run}{end}.json" for run in found[:1] for end in DOCUMENTS]
        paths += [f"/data/run/{run}.json" for run in found[1:]]
        paths += [f"/film/{run}/{episode}.mp4" for run in found[:1] for episode in EPISODES]
        for path in paths:
            answer = asked(viewer, path)
            wrong += [] if _is_safe(answer) else [(path, answer.status, answer.headers, answer.body[:300])]

    assert wrong == []
    no_runs = {problem.root.parts[0] for problem in viewer.documents.index.problems()}
    assert {name for name, found in ids.items() if not found} == {"link-whole"} | (no_runs & ids.keys())


def test_hostile_runs_share_a_list(viewer: ServedViewer) -> None:
    """The list, the leaderboard, the pages of tasks and comparisons are made, whatever lies among the runs."""
    listed = asked(viewer, "/data/runs.json").document
    huge, *others = [run["id"] for run in listed["runs"]][:3]
    tasks = [f"/data/task/{task['task']}.json" for task in listed["tasks"]]
    compared = [f"/data/compare/{first}/{second}.json" for first, second in (others, (huge, others[0]))]
    answers = [asked(viewer, path) for path in ("/data/suite.json", *tasks, *compared)]

    assert all(map(_is_safe, answers))
    assert answers[0].status == 200
    assert len(listed["runs"]) + len(listed["problems"]) == len(viewer.documents.index.directories()) + len(
        viewer.documents.index.problems()
    )


def _is_safe(answer: Answer) -> bool:
    """Return whether an answer has a known status and type, the headers, and nothing from outside."""
    headers = answer.headers
    return (
        answer.status in STATUSES
        and headers["content-type"].partition(";")[0] in TYPES
        and headers.get("x-content-type-options") == "nosniff"
        and "default-src 'self'" in headers.get("content-security-policy", "")
        and SECRET.encode() not in answer.body
    )


@pytest.mark.nightly
@pytest.mark.parametrize("form", ["served", "static"])
def test_nothing_of_a_hostile_run_is_executed(chromium: "Browser", tmp_path: Path, runs: Path, form: str) -> None:
    """No page of theirs calls the canary, opens a dialog, or asks anybody else, served and from a disk."""
    if form == "static":
        write_pages(tmp_path / "pages", Pages([runs], episodes=Episodes.ALL))
        _walk(chromium, (tmp_path / "pages" / "index.html").as_uri(), runs)
        return
    with ServedViewer([runs]) as viewer:
        _walk(chromium, viewer.entrance, runs)


def _walk(chromium: "Browser", address: str, runs: Path) -> None:
    places = RunIndex([runs]).directories().values()
    routes = [
        f"#/run/{place.id}{tail}" for place in places for tail in (TABS if len(Path(place.shown).parts) == 1 else ("",))
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
    """Return whether the console names a document of these runs that the site refuses."""
    return said.startswith("error: Failed to load resource: the server responded with a status of 4") and any(
        f"of {status} (" in said for status in (404, 422)
    )
