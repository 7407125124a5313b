"""What a run is expected to use, by runs that were played: on which it stands, how it is scaled, what it is held to."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evopolicygym
from evopolicygym.analysis.expected_use import FIXED_S, NO_MODEL, Basis, PlannedUse, PlayedRuns, UseRange, add_ranges
from evopolicygym.core.errors import UsageError
from evopolicygym.records.rows import RunRow
from made_up import load_result
from model_proxies import VARIABLE
from records_of_runs import changed, real_document, write
from shell import Shell

pytestmark = pytest.mark.made_up

PLANNED = PlannedUse("acrobot", "neutral", "m", "", 128, 16, 32, asks_model=True)
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
            "tokens": 1e6,
            "cost_usd": 2.0,
            "wall_seconds": 400.0,
            "turn_seconds": 100.0,
        }
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
    same, task = played(cost=1.0), played(agent="codex", cost=4.0)
    agent, other = played(task="ant", cost=9.0), played("ant", "codex", cost=100.0)
    cases: Sequence[tuple[PlayedRuns, float, str]] = [
        (PlayedRuns((same, task, agent, other), (played(cost=50.0),)), 1.0, Basis.SAME.value),
        (PlayedRuns((task, agent, other), (played(cost=50.0),)), 50.0, f"{Basis.SAME.value} (shipped runs)"),
        (PlayedRuns((task, agent, other)), 4.0, Basis.TASK.value),
        (PlayedRuns((agent, other)), 9.0, Basis.AGENT.value),
    ]
    found = [runs.estimate(PLANNED).cost for runs, _, _ in cases]

    assert [(one.expected, one.basis, one.runs) for one in found if one] == [
        (pytest.approx(cost), basis, 1) for _, cost, basis in cases
    ]
    assert PlayedRuns((other,)).estimate(PLANNED).cost is None


def test_a_played_run_is_scaled(played: Played) -> None:
    """Tokens, money and the agent's time go with the budget, the rest of the time with the hidden episodes."""
    runs = PlayedRuns((played(),))
    half = runs.estimate(replace(PLANNED, budget=64, held_out_cases=96))

    assert [one.expected for one in (half.agent_seconds, half.tokens, half.cost) if one] == pytest.approx([50, 5e5, 1])
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

    assert (found.cost, found.seconds) == (UseRange(0, 0, 0, NO_MODEL, 0), None)


@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_ranges_hold_nine_runs_of_ten(count: int, played: Played) -> None:
    """Of runs whose use varies as it usually does, 87 to 96 % lie in the range of others, however many there are."""
    random, inside, plain = np.random.default_rng(count), 0, played()
    for _ in range(1000):
        *costs, further = np.exp(random.normal(0.0, 0.35, count + 1)).tolist()
        found = PlayedRuns(tuple(replace(plain, cost=cost) for cost in costs)).estimate(PLANNED).cost
        inside += found is not None and found.low <= further <= found.high

    assert 870 <= inside <= 960


def test_a_total_is_only_known_where_all_parts_are() -> None:
    """Ends are added, the weakest part says on how many runs it stands, and what is free changes nothing."""
    first, second = UseRange(1, 2, 3, "a", 5), UseRange(10, 20, 30, "b", 1)

    assert add_ranges([first, second, UseRange(0, 0, 0, NO_MODEL, 0)]) == UseRange(11, 22, 33, "a, b", 1)
    assert add_ranges([first, None]) is None


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


@pytest.fixture
def suite_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """Return a suite of two runs of an agent of which a run is recorded that cost 4 USD and took 100 s."""
    monkeypatch.setenv(VARIABLE, "key")
    write_record(tmp_path / "runs", 10**6, 4.0)
    model = ("--model-url", "http://127.0.0.1:1/v1", "--model-key", VARIABLE, "--runs", tmp_path / "runs")
    sizes = ("--environment", "cartpole", "--repeats", 2, "--budget", 8, "--validation", 1, "--held-out", 2)
    (tmp_path / "suite.toml").write_text(
        'environments = ["cartpole"]\n'
        '[[agents]]\nname = "neutral"\nmodel = "m"\nprice = { input = 1.0, output = 1.0 }\n'
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
    with pytest.raises(UsageError, match="--total-cost"):
        evopolicygym.run_suite(
            "smoke", agents=["neutral:m"], environments=["cartpole"], model_url="http://127.0.0.1:1/v1", total_cost=5,
            runs=tmp_path / "runs", on_warning=lambda _warning: None,
        )  # fmt: skip
    assert json.dumps(shell.json("run", "cartpole", "--estimate")["cost"]["expected"]) == "0.0"
