"""Costs that tables show: lower bounds are marked, those at two prices are not averaged, what is left out is named."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.analysis.diagnostics.cost import Cost, summary
from evopolicygym.analysis.tables.table import cell_text
from made_up import load_result
from records_of_runs import changed, real_document, write
from shell import Shell

pytestmark = pytest.mark.made_up

CHEAP, DEAR = ({"input": rate, "output": rate} for rate in (1.0, 10.0))


def laid(below: Path, *runs: tuple[Mapping[str, float], float, int]) -> Path:
    """Write records of runs of one agent, each with its price, its cost and its generations of unknown usage."""
    document = real_document(below.parent / "real")
    for seed, (rates, cost, unknown) in enumerate(runs):
        run = changed(document, "acrobot", "neutral", [1.0, 2.0], seed) | {"run_id": f"run-{seed}"}
        run["usage"] = {"requests": 3, "unknown": unknown, "input": 900, "output": 100, "cost": cost}
        run["price"] = {
            "model": "m", "source": "given", "date": "", "rates": dict(rates), "tiers": [], "currency": "USD",
        }  # fmt: skip
        write(below, run)
    return below


def entry_of(document: Any) -> Any:
    """Return the one played entry of a leaderboard's document."""
    boards = document.get("leaderboards") or [document]
    return next(entry for board in boards for entry in board["entries"] if entry["entry"].startswith("neutral"))


@pytest.mark.parametrize(
    ("runs", "cost", "is_bound", "shown"),
    [
        (((CHEAP, 1.0, 0), (CHEAP, 2.0, 0)), 1.5, False, "1.50"),
        (((CHEAP, 1.0, 0), (CHEAP, 2.0, 1)), 1.5, True, "≥ 1.50"),
        (((CHEAP, 1.0, 0), (DEAR, 2.0, 0)), None, False, None),
    ],
    ids=["known", "bound", "two prices"],
)
def test_a_leaderboard_shows_what_is_known_of_costs(
    *, runs: Any, cost: float | None, is_bound: bool, shown: str | None, shell: Shell, tmp_path: Path
) -> None:
    """A mean is marked as a lower bound where one run is, and there is none, but a note, of runs at two prices."""
    below = laid(tmp_path / "runs", *runs)
    document = shell.json("leaderboard", below)
    text = shell("leaderboard", below, "--format", "markdown").out
    entry = entry_of(document)

    assert (entry["cost_usd"], entry["cost_is_lower_bound"]) == (cost, is_bound)
    assert shown is None or f"| {shown} |" in text
    assert ("different prices" in text) is (cost is None)
    assert ("≥" in text) is is_bound
    csv = shell("leaderboard", below, "--format", "csv").out
    assert ("cost_is_lower_bound" in csv) is is_bound


def test_diagnostics_average_money_at_one_price_only() -> None:
    """Tokens are averaged at any price; a lower bound is marked."""

    def used(price: object, *, bound: bool = False) -> Cost:
        return Cost(2, 900.0, 100.0, 1.0, bound, price, 50.0)

    same, bound, two = (
        {name: cell_text(cell) for name, cell in summary(costs).items()}
        for costs in ([used(1), used(1)], [used(1), used(1, bound=True)], [used(1), used(2)])
    )

    assert (same["money"], bound["money"], two["money"]) == ("1.000", "≥ 1.00", "-")
    assert (same["tokens"], bound["tokens"], two["tokens"]) == ("1,000", "≥ 1,000", "1,000")


def test_a_result_tells_the_price_behind_its_cost(tmp_path: Path) -> None:
    """And whether the cost is a lower bound."""
    laid(tmp_path / "runs", (DEAR, 2.0, 1))
    found = load_result(tmp_path / "runs" / "run-0000")

    assert (found.cost_usd, found.cost_is_lower_bound) == (2.0, True)
    assert found.price is not None
    assert found.price.rates.input == 10.0


def test_saved_tables_name_the_runs_that_they_leave_out(shell: Shell, tmp_path: Path) -> None:
    """An unfinished run is in the table that is kept, not on stderr alone."""
    below = laid(tmp_path / "runs", (CHEAP, 1.0, 0), (CHEAP, 2.0, 0))
    document = real_document(tmp_path / "other")
    unfinished = changed(document, "acrobot", "neutral", [1.0, 2.0], 7) | {"run_id": "cut", "stage": "open"}
    unfinished["outcome"] |= {"status": None, "held_out_returns": None, "score": None}
    write(below, unfinished)
    for form in ("markdown", "latex", "table"):
        kept = shell("leaderboard", below, "--format", form).out
        assert "run-0002" in "".join(kept.split()), form


def test_a_report_beside_the_paper_compares_on_all_tasks(shell: Shell, tmp_path: Path) -> None:
    """Also on those that the paper lacks, one of which may decide."""
    document = real_document(tmp_path / "real")
    for task, scores in (("acrobot", {"a": -90.0, "b": -90.0}), ("cartpole", {"a": 100.0, "b": 400.0})):
        for label, score in scores.items():
            for seed in range(3):
                run = changed(document, task, "neutral", [score + seed, score - seed], seed)
                run["agent"]["label"], run["run_id"] = label, f"{label}-{task}-{seed}"
                write(tmp_path / "runs", run)
    found = []
    for name, words in (("alone", ()), ("beside", ("--tables", "paper"))):
        assert shell("report", tmp_path / "runs", "-o", tmp_path / name, "--only", "compare", *words).code == 0
        document = json.loads((tmp_path / name / "tables" / "compare.json").read_text("utf-8"))
        found.append({row["task"] for row in document["tasks"]})

    assert found == [{"acrobot", "cartpole"}] * 2
