"""Intervals of aggregates cover what they say, on synthetic entries whose true ranks and norms are known."""

import numpy as np
import pytest

from evopolicygym.analysis.ranking.aggregates import aggregates
from evopolicygym.analysis.ranking.bootstrap import Resampler
from evopolicygym.analysis.ranking.leaderboard import leaderboard
from evopolicygym.analysis.ranking.score_table import ScoreTable, score_table
from evopolicygym.core.score import normalised, rank_scores
from evopolicygym.core.task import Anchor
from records_of_runs import made_result

AGENTS, TASKS, CASES = ("a", "b", "c", "d"), 16, 32
ANCHOR = -5.0


def truths() -> dict[str, dict[str, float]]:
    """Return each agent's true mean on each task: some far apart, some near, no two the same."""
    random = np.random.default_rng(5)
    return {
        f"task-{task}": {agent: float(random.normal(2.0 - place, 1.5)) for place, agent in enumerate(AGENTS)}
        for task in range(TASKS)
    }


def drawn_table(truth: dict[str, dict[str, float]], repeats: int, random: np.random.Generator) -> ScoreTable:
    """Return a table with effects of runs, of cases that all agents share, and of runs on cases."""
    runs = []
    for task, means in truth.items():
        of_cases = random.normal(size=CASES)
        for agent, mean in means.items():
            returns = mean + random.normal(size=(repeats, 1)) + of_cases + random.normal(size=(repeats, CASES))
            anchors = {"random_anchor": Anchor(ANCHOR, 0.0, 256), "idle_anchor": None, "reference_anchor": None}
            runs += [made_result(task, agent, row.tolist(), seed, **anchors) for seed, row in enumerate(returns)]
    return score_table(runs, ())


def covered(repeats: int, trials: int) -> dict[str, float]:
    """Return how often intervals of suite means hold the truth, over trials and agents."""
    truth, random = truths(), np.random.default_rng(repeats)
    ranks = {
        agent: np.mean([rank_scores(one | {"Uniform random": ANCHOR})[agent] for one in truth.values()])
        for agent in AGENTS
    }
    norms = {
        agent: np.mean([normalised(one[agent], ANCHOR, max(one.values())) for one in truth.values()])
        for agent in AGENTS
    }
    held: dict[str, list[bool]] = {"rank score": [], "normalised": []}
    for trial in range(trials):
        board = leaderboard(drawn_table(truth, repeats, random), resampler=Resampler(400, trial))
        for one in board.standings:
            if one.entry.kind == "anchor":
                continue
            for name, score, expected in (
                ("rank score", one.rank_score, ranks[one.entry.label]),
                ("normalised", one.normalised, norms[one.entry.label]),
            ):
                assert score
                assert score.interval
                held[name].append(bool(score.interval.low <= expected <= score.interval.high))
    return {name: float(np.mean(values)) for name, values in held.items()}


def test_aggregates_cover_quickly() -> None:
    """A nominal 95 % is not far off for suite means of ranks and norms."""
    assert min(covered(5, 8).values()) >= 0.88


def test_the_scale_of_aggregates_is_drawn() -> None:
    """Of agents that are nearly equal, the best one's luck is in the intervals of the others' aggregates."""
    random = np.random.default_rng(3)
    truth = {f"task-{task}": {agent: float(random.normal(0, 0.1)) for agent in AGENTS} for task in range(TASKS)}
    held = []
    for trial in range(8):
        found = aggregates(drawn_table(truth, 5, random), resampler=Resampler(300, trial))
        for row in found.entries:
            if row.entry.kind == "agent":
                true = np.mean([(of[row.entry.label] - ANCHOR) / (max(of.values()) - ANCHOR) for of in truth.values()])
                assert row.mean.interval
                held.append(row.mean.interval.low <= true <= row.mean.interval.high)

    assert np.mean(held) >= 0.8


@pytest.mark.nightly
@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_aggregates_cover(repeats: int) -> None:
    """A nominal 95 % covers at least 92 % for suite means; ranks of near entries make it cover more."""
    assert all(0.92 <= share <= 0.995 for share in covered(repeats, 400).values())
