"""The shipped runs of agents that cheat, an unlucky one and honest ones: the page for a sceptic says what is found."""

import re
from pathlib import Path

import evopolicygym
from evopolicygym.analysis.conduct.detector import Grade

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "results" / "examples" / "conduct.tar.gz"
ROW = re.compile(r"^\| (?P<name>[^|]+) \|(?:[^|]*\|){3}(?P<found>(?:[^|]*\|){3}) replayed \|$", re.MULTILINE)


def test_the_page_says_what_is_found() -> None:
    """Each row of the page's table has what the audit finds of that run, by grade, and no run is left out."""
    page = (ROOT / "docs" / "measure" / "sceptic.md").read_text(encoding="utf-8")
    said = {
        row["name"]: [set(re.findall(r"`(\w+)`", cell)) for cell in row["found"].split("|")[:3]]
        for row in ROW.finditer(page)
    }
    names = {run.run_id: run.agent.removesuffix(" script") for run in evopolicygym.load_runs(RUNS).runs}
    found = {name: [set[str](), set[str](), set[str]()] for name in names.values()}
    for path, finding in evopolicygym.audit(RUNS):
        found[names[path.name]][[Grade.SERIOUS, Grade.LOOK, Grade.NOTE].index(finding.grade)].add(finding.detector)

    assert len(said) == 8
    assert found == said
