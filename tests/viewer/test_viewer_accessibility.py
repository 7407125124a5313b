"""What axe finds on the viewer's pages: nothing that keeps anybody from using them, served or from a disk."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from browsers import Met, axe, met
from diagnosed import known_run, recorded
from evopolicygym.records import atomic
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.run_document import read_summary
from evopolicygym.viewer.documents.overview import RunIndex
from evopolicygym.viewer.site.pages import Pages, write_pages, write_single_file
from evopolicygym.viewer.site.serving import ServedViewer
from viewed import first_held_out, real_runs, write_film

pytestmark = [pytest.mark.nightly, pytest.mark.made_up]

if TYPE_CHECKING:
    from playwright.sync_api import Browser

RUN_AXE = "async () => (await axe.run(document, { resultTypes: ['violations'] })).violations"
TABS = ("change", "feedback", "transcript", "episodes")
REPORT = [
    {"name": "x", "kind": "figure", "title": "X", "caption": "It.", "method": "As `x`.", "files": ["figures/x.svg"]},
    {"name": "x", "kind": "table", "title": "X", "caption": "It.", "method": "As `x`.", "files": ["tables/x.csv"]},
]
GRAVE = {"serious", "critical"}


@pytest.fixture(scope="module")
def script() -> str:
    return axe()


@pytest.fixture(scope="module")
def addresses(
    chromium: "Browser", script: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, str], list[tuple[str, str]]]]:
    """Yield where the pages of real runs and a known one are, served and from a disk, and all their routes."""
    assert chromium.is_connected()
    assert "axe" in script
    place = tmp_path_factory.mktemp("accessible")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        evolver, random = real_runs(place / "runs")
    write_film(evolver)
    record = recorded(place / "runs" / "known", known_run())
    _write(record.paths.transcript, '{"role": "assistant", "text": "submission 1 is taken"}\nwords\n')
    whole = record.paths.journal.read_bytes().splitlines(keepends=True)
    live = RunPaths(place / "runs" / "live")
    _write(live.journal, b"".join(whole[:7]).decode())
    lock = atomic.lock_file(live.lock, "live")  # as the process that plays it holds it
    write_pages(place / "pages", Pages([place / "runs"], report=REPORT))
    _write(place / "pages" / "figures" / "x.svg", '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    write_single_file(place / "single" / "runs.html", Pages([place / "runs"]))
    ids = {one.root.name: one.id for one in RunIndex([place / "runs"]).directories().values()}
    episode = first_held_out(place / "pages", ids[evolver.root.name])
    summary = read_summary(evolver)
    entry, experiment = quote(summary.entry), summary.experiment
    first, second = sorted([ids[evolver.root.name], ids[random.root.name]])
    routes = [
        ("#/", ".board table"), ("#/?tables=paper", "text=GPT-5.5"), ("#/?filter=nobody", ".nothing"),
        ("#/task/cartpole", ".chart svg .curve"), (f"#/run/{ids['live']}", ".tag.live"), ("#/run/nobody", ".trouble"),
        *((f"#/run/{ids['known']}/{at}/{tab}", ".tabbody > *") for at, tab in enumerate(TABS)),
        (f"#/run/{ids['known']}/1/change", ".row.plus"), (f"#/run/{ids['known']}/1/transcript", ".said"),
        (f"#/run/{first}/0/episodes", ".tabbody td"), (f"#/episode/{ids[evolver.root.name]}/{episode}", "canvas"),
        (f"#/compare/{first}/{second}", ".verdict"), ("#/report", "h1"), (f"#/entry/{entry}", "[aria-label=Edits] td"),
        (f"#/experiment/{experiment}", "[aria-label='Tasks by entries'] td"),
        (f"#/compare/{first}/{second}/{ids['known']}", "[aria-label=Scores] td"),
        (f"#/compare?entry={entry}&entry=random", "[aria-label=Entries] td"), (f"#/?entry={entry}", ".filters select"),
    ]  # fmt: skip
    with ServedViewer([place / "runs"]) as viewer:
        yield (
            {
                "served": viewer.entrance,
                "directory": (place / "pages" / "index.html").as_uri(),
                "file": (place / "single" / "runs.html").as_uri(),
            },
            routes,
        )
    os.close(lock)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("form", ["served", "directory", "file"])
def test_axe_finds_nothing_grave(
    chromium: "Browser",
    script: str,
    addresses: tuple[dict[str, str], list[tuple[str, str]]],
    form: str,
    scheme: str,
    width: int,
) -> None:
    """No page has a violation of serious or critical impact: light and dark, on a desk and on a phone."""
    places, routes = addresses
    grave: list[str] = []
    with met(chromium, places[form], width=width, scheme=scheme) as found:
        for route, until in routes:
            found.open(route, until)
            grave += _grave(found, script, route)
        found.page.keyboard.press("?")
        grave += _grave(found, script, "keys")
        found.said[:] = [one for one in found.said if "404" not in one]

    assert grave == []


def test_axe_would_find_something(
    chromium: "Browser", script: str, addresses: tuple[dict[str, str], list[tuple[str, str]]]
) -> None:
    """A button without a name on one of these pages is found: the test above can fail."""
    with met(chromium, addresses[0]["served"]) as found:
        found.open("#/", ".board table")
        found.page.evaluate("document.querySelector('main').append(document.createElement('button'))")

        assert [one.split(": ")[1] for one in _grave(found, script, "suite")] == ["button-name"]


def _grave(found: Met, script: str, route: str) -> list[str]:
    if not found.page.evaluate("'axe' in globalThis"):
        found.page.evaluate(script)
    violations: list[dict[str, Any]] = found.page.evaluate(RUN_AXE)
    return [
        f"{route}: {one['id']}: {node['target']} {node['html'][:120]} {node['failureSummary'][:300]}"
        for one in violations
        if one["impact"] in GRAVE
        for node in one["nodes"]
    ]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
