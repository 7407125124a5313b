"""What a run is expected to use, by runs that were played: on which it stands, how it is scaled, what it is held to."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evopolicygym
from evopolicygym.analysis.expected_use import (
    EPISODES_FACTOR,
    FIXED_S,
    NOTHING,
    Basis,
    PlannedUse,
    PlayedRuns,
    UseRange,
    add_ranges,
)
from evopolicygym.core.agent import PriceSnapshot, Rates, Tier, TokenCounts
from evopolicygym.core.errors import UsageError
from evopolicygym.records.rows import RunRow
from made_up import load_result
from model_proxies import VARIABLE
from records_of_runs import changed, real_document, write
from shell import Shell

pytestmark = pytest.mark.made_up

PRICE = PriceSnapshot("m", "given", "", Rates(2.0, 10.0, 0.5))
PLANNED = PlannedUse("acrobot", "neutral", "m", "", 128, 16, 32, asks_model=True, is_metered=True, price=PRICE)
SMALL = {"validation": 1, "held_out": 2, "split": "public", "workers": 1}
Played = Callable[..., RunRow]


@pytest.fixture
def played(tmp_path: Path) -> Played:
    """Return what makes a result of a run that used so much."""
    plain = load_result(write(tmp_path / "made", real_document(tmp_path / "real")))

    def made(task: str = "acrobot", agent: str = "neutral", model: str = "m", **used: Any) -> RunRow:
        sizes = {
            "budget": 128,
            "spent": 128,
            "validation_cases": 16,
            "held_out_returns": (0.0,) * 32,
            "submissions": 16,
        }
        made_up = {
            "checkpoints": tuple(map(str, range(16))),
            "cost_usd": 99.0,
            "wall_seconds": 400.0,
            "turn_seconds": 100.0,
        }
        counts = used.setdefault("token_counts", TokenCounts(8e5, 2e5, 4e5))
        made_up["tokens"] = counts.input + counts.output
        return replace(plain, task=task, agent_kind=agent, model=model, **{**sizes, **made_up, **used})

    return made


def write_record(below: Path, tokens: int, cost: float, seconds: float = 100.0, task: str = "cartpole") -> None:
    """Write the record of a run of `neutral` that used so much."""
    document = changed(real_document(below.parent / f"real-{cost}"), task, "neutral", [1.0, 2.0])
    document["agent"]["model"] = "m"
    document["usage"] = {"requests": 3, "input": tokens - 1000, "output": 1000, "cost": cost}
    document["timing"] |= {"opened_at": "2026-01-01T00:00:00.000Z", "finished_at": "2026-01-01T00:02:30.000Z"}
    document["timing"]["agent_turns"] = [
        {"started_at": "x", "ended_at": "x", "seconds": seconds, "end": "finished", "message": ""}
    ]
    write(below, document)


def test_the_same_agent_on_the_same_task_counts_first(played: Played) -> None:
    """Then other agents on the task, then the agent on other tasks; the user's own runs before those that ship."""
    same, task = played(tokens=1e3), played(agent="codex", tokens=4e3)
    agent, other = played(task="ant", tokens=9e3), played("ant", "codex", tokens=1e5)
    shipped = (played(tokens=5e4),)
    cases: Sequence[tuple[PlayedRuns, float, str]] = [
        (PlayedRuns((same, task, agent, other), shipped), 1e3, Basis.SAME.value),
        (PlayedRuns((task, agent, other), shipped), 5e4, f"{Basis.SAME.value} (shipped runs)"),
        (PlayedRuns((task, agent, other)), 4e3, Basis.TASK.value),
        (PlayedRuns((agent, other)), 9e3, Basis.AGENT.value),
    ]
    found = [runs.estimate(PLANNED).tokens for runs, _, _ in cases]

    assert [(one.expected, one.basis, one.runs) for one in found if one] == [
        (pytest.approx(tokens), basis, 1) for _, tokens, basis in cases
    ]
    assert PlayedRuns((other,)).estimate(PLANNED).tokens is None


def test_money_is_expected_tokens_at_the_price_of_the_run(played: Played) -> None:
    """Played runs tell tokens by kind; what they cost, at the price of their model, is not read."""
    runs = (played(), played(agent="codex", model="dear", token_counts=TokenCounts(4e6, 1e6, 1e6), cost_usd=1e3))
    for found_in, counts in ((runs, TokenCounts(8e5, 2e5, 4e5)), (runs[1:], TokenCounts(4e6, 1e6, 1e6))):
        found = PlayedRuns(found_in).estimate(replace(PLANNED, budget=64))
        assert found.cost
        assert found.token_counts == counts.scaled(0.5)
        assert found.cost.expected == pytest.approx(PRICE.cost_of_requests(counts.scaled(0.5)))
    free = PlayedRuns(runs).estimate(replace(PLANNED, price=PriceSnapshot("m", "given", "", Rates(0, 0)))).cost

    assert free
    assert (free.low, free.expected, free.high) == (0, 0, 0)


def test_without_a_price_money_is_unknown(played: Played) -> None:
    """What other models cost is not it; only the same agent's own tool can tell, where no proxy counts."""
    told = played(agent="outside", cost_usd=3.0)
    unpriced = replace(PLANNED, agent="outside", price=None)
    found = [
        PlayedRuns(runs).estimate(planned).cost
        for planned, runs in (
            (replace(PLANNED, price=None), (played(), played(agent="codex"))),
            (unpriced, (told,)),
            (replace(unpriced, is_metered=False), (told,)),
            (replace(unpriced, is_metered=False), (replace(told, price=PRICE),)),
        )
    ]

    assert [each and each.expected for each in found] == [None, None, 3.0, None]
    assert PlayedRuns().estimate(unpriced).lacks_price


def test_a_tier_is_that_of_a_request(played: Played) -> None:
    """Sums over requests are priced by their mean input, not as one long request."""
    tiers = replace(PRICE, tiers=(Tier(20_000, Rates(4.0, 20.0)),))
    found = [
        PlayedRuns((played(requests=requests),)).estimate(replace(PLANNED, price=tiers)).cost for requests in (100, 10)
    ]

    assert [each.expected for each in found if each] == pytest.approx([0.8 + 0.2 + 2.0, 3.2 + 4.0])


def test_what_is_expected_is_a_mean(played: Played) -> None:
    """Not a geometric one, so that what many runs use is the sum of what each is expected to."""
    counts = [TokenCounts(tokens, 0.0) for tokens in (1e5, 1e6, 1e7)]
    found = PlayedRuns(tuple(played(token_counts=each, wall_seconds=each.input) for each in counts)).estimate(PLANNED)

    for amount, mean, middle in ((found.tokens, 3.7e6, 1e6), (found.seconds, 3.7e6, 1e6), (found.cost, 7.4, 2.0)):
        assert amount
        assert (amount.expected, amount.median) == pytest.approx((mean, middle))
        assert amount.low < amount.median < amount.expected < amount.high


def test_usage_that_is_partly_unknown_makes_a_lower_bound(played: Played) -> None:
    """Of tokens and money, not of time."""
    found = PlayedRuns((played(), played(cost_is_lower_bound=True))).estimate(PLANNED)

    assert [each and each.is_lower_bound for each in (found.tokens, found.cost, found.seconds)] == [True, True, False]


def test_without_runs_time_is_that_of_the_episodes() -> None:
    """From the task's measured seconds, the budget and the hidden cases, and named so; a lower bound beside a model."""
    runs = PlayedRuns(episode_seconds={"acrobot": 0.07}.get)
    model, none = (runs.estimate(replace(PLANNED, asks_model=asks)) for asks in (True, False))

    assert model.seconds
    assert none.seconds
    assert none.agent_seconds
    assert (none.seconds.basis, none.seconds.runs) == (Basis.EPISODES.value, 0)
    assert (none.seconds.is_lower_bound, model.seconds.is_lower_bound) == (False, True)
    assert none.agent_seconds.median == pytest.approx(128 * (0.07 + FIXED_S) * EPISODES_FACTOR)
    assert none.seconds.median == pytest.approx((128 + 16 * 16 + 32) * (0.07 + FIXED_S) * EPISODES_FACTOR)
    assert none.seconds.low < none.seconds.median < none.seconds.expected < none.seconds.high
    assert (model.tokens, model.cost) == (None, None)
    assert PlayedRuns().estimate(PLANNED).seconds is None


def test_a_played_run_is_scaled(played: Played) -> None:
    """Tokens, money and the agent's time go with the budget, the rest of the time with the hidden episodes."""
    runs = PlayedRuns((played(),))
    half = runs.estimate(replace(PLANNED, budget=64, held_out_cases=96))

    assert [one.expected for one in (half.agent_seconds, half.tokens, half.cost) if one] == pytest.approx(
        [50, 5e5, 1.5]
    )
    assert half.seconds
    assert half.seconds.expected == pytest.approx(50 + 300 * (8 * 16 + 96) / (16 * 16 + 32))
    few = runs.estimate(replace(PLANNED, most_submissions=4)).seconds
    assert few
    assert few.expected == pytest.approx(100 + 300 * (4 * 16 + 32) / (16 * 16 + 32))


def test_runs_of_other_tasks_are_scaled_by_the_seconds_of_an_episode(played: Played) -> None:
    """All of an optimiser's time is episodes; of an agent with a model only what episodes took is exchanged."""
    seconds = {"acrobot": 0.01, "slow": 0.37}.get
    slow = replace(PLANNED, task="slow")
    thinker = PlayedRuns((played(),), episode_seconds=seconds).estimate(slow)
    optimiser = PlayedRuns((played(agent="tuner", model=""),), episode_seconds=seconds).estimate(
        replace(slow, agent="tuner", model="", asks_model=False)
    )
    unknown = PlayedRuns((played(),), episode_seconds=seconds).estimate(replace(PLANNED, task="other"))

    assert thinker.agent_seconds
    assert thinker.agent_seconds.expected == pytest.approx(100 + 128 * (0.37 - 0.01))
    assert optimiser.seconds
    assert optimiser.seconds.expected == pytest.approx(400 * (0.37 + FIXED_S) / (0.01 + FIXED_S))
    assert unknown.seconds
    assert unknown.seconds.expected == pytest.approx(400)


def test_an_agent_without_a_model_costs_nothing(played: Played) -> None:
    """It needs no tokens and no money; what agents with a model took on the task tells nothing of it."""
    found = PlayedRuns((played(),)).estimate(replace(PLANNED, agent="tuner", model="", asks_model=False))

    assert (found.cost, found.seconds) == (NOTHING, None)


@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_ranges_hold_nine_runs_of_ten(count: int, played: Played) -> None:
    """Of runs whose use varies as it usually does, 87 to 96 % lie in the range of others, however many there are."""
    random, inside, plain = np.random.default_rng(count), 0, played()
    for _ in range(1000):
        *used, further = np.exp(random.normal(0.0, 0.35, count + 1)).tolist()
        found = PlayedRuns(tuple(replace(plain, tokens=tokens) for tokens in used)).estimate(PLANNED).tokens
        inside += found is not None and found.low <= further <= found.high

    assert 870 <= inside <= 960


def test_a_total_is_only_known_where_all_parts_are() -> None:
    """The weakest part says on how many runs it stands, and what is free changes nothing."""
    first, second = UseRange(1, 2, 2.5, 4, "a", 5), UseRange(10, 20, 22, 40, "b", 1, is_lower_bound=True)
    whole = add_ranges([first, second, NOTHING])

    assert whole
    assert (whole.expected, whole.basis, whole.runs, whole.is_lower_bound) == (24.5, "a, b", 1, True)
    assert add_ranges([first, NOTHING]) == first
    assert add_ranges([first, None]) is None


def test_ranges_add_up_as_far_as_they_are_off_together() -> None:
    """Ends of what is shared are added; the range of independent amounts is as narrow as that of their sum."""
    random, spread, count = np.random.default_rng(1), 0.5, 12
    ends = [math.exp(side * 1.6448536 * spread) for side in (-1, 0, 1)]
    part = UseRange(ends[0], ends[1], math.exp(spread**2 / 2), ends[2], "a", 1)
    sums = np.exp(random.normal(0.0, spread, (20_000, count))).sum(axis=1)
    independent, together = (add_ranges([replace(part, shared=shared)] * count) for shared in ({}, {"all": 1.0}))

    assert independent
    assert together
    assert together.amounts == pytest.approx([count * amount for amount in part.amounts], rel=0.05)
    assert independent.expected == pytest.approx(sums.mean(), rel=0.01)
    assert (independent.low, independent.high) == pytest.approx(np.quantile(sums, [0.05, 0.95]).tolist(), rel=0.03)


def test_repeats_share_the_error_of_what_they_are_estimated_from(played: Played) -> None:
    """The range of a sum holds nine sums of ten, for repeats that stand on two runs and on other agents' runs."""
    random, plain = np.random.default_rng(5), played()
    for agents in (False, True):
        inside = 0
        for _ in range(300):
            own = random.normal(0.0, math.sqrt(0.8**2 - 0.35**2), 2) * agents
            used = np.exp(own[0] + random.normal(0.0, 0.35, 2)).tolist()
            source = "codex" if agents else "neutral"
            runs = PlayedRuns(tuple(replace(plain, tokens=tokens, agent_kind=source) for tokens in used))
            whole = add_ranges([runs.estimate(PLANNED).tokens] * 8)
            true = float(np.exp(own[1] + random.normal(0.0, 0.35, 8)).sum())
            inside += whole is not None and whole.low <= true <= whole.high

        assert 255 <= inside <= 292, f"{inside} of 300 with agents {agents}"


def test_an_estimate_plays_and_writes_nothing(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state_home: Path
) -> None:
    """The verbs and the functions say what is expected, of shipped runs, and leave no file anywhere."""
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    run = shell.json("run", "acrobot", "--estimate")
    suite = shell.json("suite", "smoke", "--environment", "acrobot", "--repeats", "2", "--budget", "128", "--estimate")
    by_python = evopolicygym.estimate("acrobot", "tuner")

    assert run == by_python.document
    assert run["seconds"]["basis"] == "same agent, same task (shipped runs)"
    assert 0 < run["seconds"]["low"] < run["seconds"]["expected"] < run["seconds"]["high"]
    assert suite["cost"]["expected"] == 0
    assert [one["repeat"] for one in suite["runs"]] == [0, 1]
    assert suite["seconds"]["expected"] <= sum(one["seconds"]["expected"] for one in suite["runs"])
    assert "wall time" in by_python.to_markdown()
    assert sorted(tmp_path.rglob("*")) == before
    assert not state_home.exists()


def test_an_estimate_needs_a_price_and_no_key(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Money follows the price that a run is given; without one it is unknown, whatever played runs cost."""
    monkeypatch.delenv(VARIABLE, raising=False)
    write_record(tmp_path / "runs", 10**6, 4.0)
    model = ("--model-url", "http://127.0.0.1:1/v1", "--model-key", VARIABLE, "--runs", tmp_path / "runs")
    run = ("run", "cartpole", "--agent", "neutral", "--model", "m", *model, "--budget", 8)
    costs = [
        shell.json(*run, "--estimate", *price)["cost"]
        for price in ((), ("--price", "input=1,output=1"), ("--price", "input=100,output=1"))
    ]
    of_suites = []
    for price in ("", "price = { input = 1, output = 1 }", "price = { input = 100, output = 1 }"):
        (tmp_path / "suite.toml").write_text(
            f'environments = ["cartpole"]\n[[agents]]\nname = "neutral"\nmodel = "m"\n{price}\n'
        )
        suite = ("suite", tmp_path / "suite.toml", *model, "--budget", 8, "--repeats", 3, "--estimate")
        of_suites.append(shell.json(*suite)["cost"])

    assert [cost and cost["expected"] for cost in costs] == [None, pytest.approx(1.0), pytest.approx(99.901)]
    assert [cost and cost["expected"] for cost in of_suites] == [None, pytest.approx(3.0), pytest.approx(3 * 99.901)]


@pytest.fixture
def suite_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """Return a suite of two runs of an agent of which a run is recorded that cost 4 USD and took 100 s."""
    monkeypatch.setenv(VARIABLE, "key")
    write_record(tmp_path / "runs", 10**6, 4.0)
    model = ("--model-url", "http://127.0.0.1:1/v1", "--model-key", VARIABLE, "--runs", tmp_path / "runs")
    sizes = ("--environment", "cartpole", "--repeats", 2, "--budget", 8, "--validation", 1, "--held-out", 2)
    (tmp_path / "suite.toml").write_text(
        'environments = ["cartpole"]\n'
        '[[agents]]\nname = "neutral"\nmodel = "m"\nprice = { input = 4.0, output = 4.0 }\n'
    )
    return ("suite", tmp_path / "suite.toml", *model, *sizes)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--total-cost", 7), "8.00 USD"),
        (("--total-time", "10s"), "--total-time"),
        (("--max-cost", 0.5), "max_cost of 0.50 USD"),
        (("--max-time", "10s"), "max_time of 0m10s"),
    ],
    ids=lambda one: " ".join(map(str, one)) if isinstance(one, tuple) else "",
)
def test_a_suite_over_a_limit_is_refused(
    flags: tuple[Any, ...], said: str, suite_words: tuple[Any, ...], shell: Shell, tmp_path: Path
) -> None:
    """Before it begins, with the figures; nothing of it is written."""
    left = shell(*suite_words, *flags)

    assert left.code == 2
    assert said in " ".join(left.err.split())
    assert not (tmp_path / "runs" / "suite").exists()


@pytest.mark.parametrize(
    "flags",
    [
        ("--total-cost", 9, "--total-time", "1d"),
        ("--max-cost", 3, "--max-time", "1h"),
        ("--cross", "max_cost=0.5"),
        ("--total-cost", 4, "--max-cost", 2),
    ],
    ids=lambda one: " ".join(map(str, one)),
)
def test_a_suite_within_its_limits_is_played(
    flags: tuple[Any, ...], suite_words: tuple[Any, ...], shell: Shell
) -> None:
    """What is expected lies within them, a run's range reaches down to its limit, or the limit is what is compared."""
    assert len(shell.json(*suite_words, *flags, "--dry-run")) == 2


def test_a_limit_that_nothing_tells_of_is_refused(shell: Shell, tmp_path: Path) -> None:
    """Where no run tells what an agent costs, a limit on the whole can't be kept, and the suite says how it could."""
    for price, limit, helps in (
        (None, {"total_cost": 5}, "price = "),
        ({"input": 1.0, "output": 1.0}, {"total_cost": 5}, "--repeats 1"),
        (None, {"total_time": "9d"}, "--repeats 1"),
    ):
        with pytest.raises(UsageError, match=helps):
            evopolicygym.run_suite(
                "smoke", agents=["neutral:m"], environments=["cartpole"], model_url="http://127.0.0.1:1/v1",
                price=price, runs=tmp_path / "runs", on_warning=lambda _warning: None, **limit,
            )  # fmt: skip
    assert json.dumps(shell.json("run", "cartpole", "--estimate")["cost"]["expected"]) == "0.0"
