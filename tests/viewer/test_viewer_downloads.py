"""Charts of the viewer are taken away as SVG, PNG, CSV and Markdown, served and from a disk."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from browsers import Met, met
from diagnosed import known_run, recorded
from evopolicygym.viewer.documents.overview import RunIndex
from evopolicygym.viewer.site.pages import Pages, write_pages
from evopolicygym.viewer.site.serving import ServedViewer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.nightly, pytest.mark.made_up]


@pytest.mark.parametrize("form", ["served", "static"])
def test_a_chart_is_taken_away(chromium: "Browser", tmp_path: Path, form: str) -> None:
    """The drawing stands alone, the picture has pixels, and both tables hold the numbers that are drawn."""
    recorded(tmp_path / "runs" / "known", known_run())
    runs = tmp_path / "runs"
    if form == "static":
        write_pages(tmp_path / "pages", Pages([runs]))
        _take_away(chromium, (tmp_path / "pages" / "index.html").as_uri(), runs, tmp_path)
        return
    with ServedViewer([runs]) as viewer:
        _take_away(chromium, viewer.entrance, runs, tmp_path)


def _take_away(chromium: "Browser", address: str, runs: Path, below: Path) -> None:
    (place,) = RunIndex([runs]).directories().values()
    with met(chromium, address) as found:
        found.open("#/task/toy", ".chart svg .curve")
        for chart in range(2):
            saved = {form: _download(found, chart, form, below) for form in ("svg", "png", "csv", "md")}
            drawing = ET.fromstring(saved["svg"])  # noqa: S314 - the page's own
            assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
            assert not [element for element in drawing.iter() if {"class", "href", "style"} & set(element.keys())]
            assert saved["png"].startswith(b"\x89PNG")
            assert len(saved["png"]) > 2000
            rows = list(csv.reader(saved["csv"].decode().splitlines()))
            lines = saved["md"].decode().splitlines()
            assert rows[0][:4] == ["entry", "group", "run", "seed"]
            assert {row[2] for row in rows[1:]} == {place.id}
            assert len(lines) == len(rows) + 1
            assert lines[-1] == f"| {' | '.join(rows[-1])} |"
        found.open(f"#/run/{place.id}", ".submissions")
        found.until("document.querySelector('.chart svg')?.getAttribute('aria-label').startsWith('Returns of')")
        assert _download(found, 0, "csv", below).startswith(b"submission,from,spent,status,train,validation,")


def _download(found: Met, chart: int, form: str, below: Path) -> bytes:
    """Return what a button of a chart's menu saves."""
    menu = found.page.locator(".chart > .downloads").nth(chart)
    if menu.get_attribute("open") is None:
        menu.locator("summary").click()
    with found.page.expect_download() as saving:
        menu.get_by_role("button", name=form.upper(), exact=True).click()
    assert saving.value.suggested_filename.endswith(f".{form}")
    saving.value.save_as(below / "saved")
    return (below / "saved").read_bytes()
