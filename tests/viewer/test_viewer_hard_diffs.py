"""A diff has limits that whoever wrote the files can't move, and holds up no page of a run."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.analysis.text_diff import BoundedMatcher, DiffBudget
from evopolicygym.viewer.documents import documents as documents_module
from evopolicygym.viewer.documents.change import MOST_LINES, file_diff
from evopolicygym.viewer.documents.documents import Documents
from evopolicygym.viewer.documents.overview import RunIndex
from viewed import known


def _lines(seed: int, count: int, kinds: int) -> list[str]:
    draw = random.Random(seed)  # noqa: S311 - no secret
    return [f"line {draw.randrange(kinds)}" for _ in range(count)]


def test_hard_texts_take_no_more_steps_than_there_are() -> None:
    """Texts that share every second line take difflib cubic time; here they count as replaced."""
    texts = [[line for i in range(MOST_LINES // 2 - 1) for line in ("shared", f"{side} {i}")] for side in "ab"]
    budget = DiffBudget(steps=20_000)
    shown = file_diff(*("\n".join(["head", *text]).encode() for text in texts), budget)

    assert -10 * MOST_LINES < budget.steps < 0
    assert shown["note"].startswith("Too different")
    assert (shown["added"], shown["removed"]) == (MOST_LINES - 3, MOST_LINES - 3)
    assert shown["rows"][0] == (" ", 1, 1, "head")


def test_files_share_a_documents_limits() -> None:
    """What the files before took of steps, bytes and lines is not there for those behind."""
    many, budget = "\n".join(_lines(1, 100, 50)).encode(), DiffBudget(bytes=1000, rows=60)
    first, second = file_diff(None, many, budget), file_diff(None, many, budget)

    assert (len(first["rows"]), first["cut"]) == (60, 40)
    assert (second["rows"], second["cut"]) == ([], 0)
    assert second["note"].startswith("The files before it")


@pytest.mark.parametrize("seed", range(30))
def test_shared_lines_lead_from_a_text_to_the_other(seed: int) -> None:
    """Every shared line is the same in both texts, the places rise, and no less is shared than difflib finds."""
    before, after = _lines(seed, seed % 7 * 5, 4), _lines(seed + 100, seed % 5 * 9, 4)
    matcher = BoundedMatcher(before, after, DiffBudget())
    blocks = matcher.get_matching_blocks()
    made = [
        line
        for what, i1, i2, j1, j2 in matcher.get_opcodes()
        for line in (before[i1:i2] if what == "equal" else after[j1:j2])
    ]

    assert matcher.is_whole
    assert made == after
    assert all(before[one.a : one.a + one.size] == after[one.b : one.b + one.size] for one in blocks)


def test_a_submission_holds_up_no_other_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a submission's document is made, which may take a moment, the run's own page is answered."""
    known(tmp_path)
    documents = Documents(RunIndex([tmp_path]))
    (run,) = documents.index.directories()

    def made_meanwhile(*_: object) -> dict[str, Any]:
        with ThreadPoolExecutor() as others:
            return {"meanwhile": json.loads(others.submit(documents.document, f"run/{run}").result(20))["id"]}

    monkeypatch.setattr(documents_module, "submission_bundle", made_meanwhile)

    assert json.loads(documents.document(f"run/{run}/submission/0")) == {"meanwhile": run}
