"""What a person sees of groups, endings, the audit and costs in a real browser, on a desk and on a phone."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_viewer_groups import events_of, write_run

from browsers import met
from diagnosed import recorded
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.event import RunOpened
from evopolicygym.viewer.site.serving import ServedViewer
from labelled_conduct import transcript_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.made_up

ABROAD = """[...document.querySelectorAll('.chart > svg')].flatMap((svg) => {
  const frame = svg.querySelector('.axes .base').getBBox(), low = frame.y + 1;
  return [...svg.querySelectorAll('.heldout, .spreadband, .band')].filter((band) => {
    const box = band.getBBox();
    return box.height && (box.y < -1 || box.y + box.height > low || box.x < frame.x - 1
      || box.x + box.width > frame.x + frame.width + 1);
  }).map((band) => band.getAttribute('class'));
})"""
"""The bands of all charts that leave the frame of their axes."""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Write runs of two groups: with and without cost, one that crashed, and one with a serious finding."""
    below = tmp_path / "runs"
    for at, (agent, cost) in enumerate((("claude_code", 0.02), ("codex", 0.4))):
        for seed in range(2):
            usage = {"input": 900, "output": 100, "cost": cost}
            opened, *events = events_of(AgentConfig(agent, "it's me"), 10, 3.0 + at + seed, usage=usage)
            assert isinstance(opened, RunOpened)
            record = recorded(
                below / f"{agent}-{seed}", [replace(opened, seed=seed, run_id=f"{agent}-{seed}"), *events]
            )
            record.paths.logs.mkdir()
            record.paths.transcript.write_text(transcript_of([("Bash", {"command": "pip install gymnasium"})]))
    recorded(below / "broken", events_of(AgentConfig("tuner"), 12, end="crashed", message="ValueError: no"))
    write_run(below / "wide", "tuner", 12, 1, 30.0, spread=50.0)
    return below


def test_groups_ends_and_findings_are_seen(chromium: "Browser", runs: Path) -> None:
    """Each group has its table; findings, the way that a run ended and a comparison's command stand in words."""
    with ServedViewer([runs]) as viewer, met(chromium, viewer.entrance) as found:
        ids = {place.root.name: place.id for place in viewer.documents.index.directories().values()}
        page = found.page
        found.open("#/", ".conduct.serious")
        tables = page.locator(".board table").all()
        assert [table.locator("tbody tr").count() for table in tables] == [2, 3]
        assert page.locator(".board h2.group").all_inner_texts() == ["budget 12", "budget 10"]
        assert page.locator(".board .tag.bad").count() == 1
        ticks = [text for text in page.locator(".chart .axes text").all_text_contents() if text.startswith("$")]
        assert ticks == ["$0.02", "$0.05", "$0.1", "$0.2", "$0.5"]
        for box in page.locator(".board [aria-label='Leaderboard, budget 10'] tbody input").all():
            box.check()
        page.click("p.comparison a")
        page.wait_for_selector("[aria-label='Tasks, budget 10'] td")
        command = page.inner_text(".commands code")
        assert command == f"""evopolicygym compare 'codex it'"'"'s me' 'claude_code it'"'"'s me' {runs}"""
        found.open(f"#/run/{ids['broken']}", ".ended.bad")
        assert "ValueError: no" in page.inner_text(".ended")
        # In one step: the heading is drawn anew when the audit comes, and what it replaces has no place.
        place = page.evaluate("document.querySelector('.ended').getBoundingClientRect().y")
        assert 0 < place < 400
        found.open(f"#/run/{ids['claude_code-0']}", "[aria-label=Findings] td a")
        page.click("[aria-label=Findings] td a")
        page.wait_for_selector(".transcript [aria-current]")
        for route in (f"#/run/{ids['wide']}", "#/task/toy", "#/entry/tuner"):
            found.open(route, ".chart svg")
            assert page.evaluate(ABROAD) == [], route


def test_a_phone_shows_score_and_rank(chromium: "Browser", runs: Path) -> None:
    """At 390 pixels the place, the entry and its score, and a run and its score, are seen without scrolling aside."""
    with ServedViewer([runs]) as viewer, met(chromium, viewer.entrance, width=390) as found:
        found.open("#/", "[aria-label=Runs] td")
        found.page.wait_for_selector(".board td")
        seen = found.page.evaluate(
            """[["#", 0], ["entry", 0], ["rank score", 0], ["run", -1], ["score ± s.e.", -1]].map(([name, at]) => {
              const table = [...document.querySelectorAll('table')].at(at);
              const column = [...table.querySelectorAll('th')].findIndex((one) => one.textContent === name);
              const row = [...table.querySelectorAll('tbody tr')].at(-1).children[column].getBoundingClientRect();
              return row.width > 0 && row.left >= 0 && row.right <= 390; })"""
        )
        assert seen == [True] * 5
        assert found.page.evaluate("document.documentElement.scrollWidth") <= 390
