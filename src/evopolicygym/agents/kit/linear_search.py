"""Search over the weights of a small linear policy, which ``tuner`` and ``random_search`` share.

It knows no environment. It probes with random play to see how observations are spread, then lets populations play: one
submission holds many candidates, and each of its episodes is played by one of them, all on the same train case. After
every generation the best candidate and what the strategy believes in are submitted alone, because a whole population
makes a poor checkpoint. All of it follows from the run's seed and the feedback, so that after a crash it asks the same
again and is answered from what was played. Each agent says how candidates are drawn; the policy itself is in
``tuner_policy/policy.py``.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from statistics import fmean
from threading import Event
from typing import Any, Protocol

import numpy as np

from evopolicygym.agents.kit.judge_client import JudgeClient, Summary, turn
from evopolicygym.core.agent import JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import AgentError

POPULATION, LEAST_POPULATION = 10, 4
BUDGET_SHARE = 10
"""A population is at most this part of the budget, so that a few generations fit even into a small one."""
WIDER_FIRST = 3
"""The first generation has so many times the population; a strategy may leave out those in the middle."""
MOST_FEATURES = 10
"""Of more numbers than these, the principal components are seen."""
STEP = 0.2
"""The first step, for features of unit variance."""
SPREAD, FIRST_SPREAD = 3.0, 8.0
"""Where the size of a weight counts, a population's steps are stretched by factors from 1/spread to spread: how large
a step pays is not known before."""
PROBE_EPISODES = 2

Numbers = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Parameters:
    """The content of ``parameters.json``."""

    probing: bool = False
    center: Sequence[float] = ()
    """(numbers seen,)"""
    projection: Sequence[Sequence[float]] = ()
    """(features, numbers seen)"""
    candidates: Sequence[Sequence[float]] = ()
    """(candidates, weights)"""


@dataclass(frozen=True, slots=True)
class _Probe:
    """What random play has shown."""

    n_scores: int
    """How many scores an action takes."""
    graded: bool
    """Whether the size of a score counts, not only which is the largest."""
    seen: Numbers
    """(steps, numbers)"""


class Strategy(Protocol):
    """How candidates are drawn."""

    def ask(self, factor: float) -> Numbers:
        """Return a candidate, as far from the strategy's centre as ``factor`` times its own step."""

    def tell(self, asked: Sequence[Numbers], scores: Sequence[float]) -> None:
        """Take note of a generation."""

    @property
    def believed(self) -> Numbers:
        """The candidate that it would submit if it could submit but one."""


@dataclass(slots=True)
class LinearSearchAgent:
    """Spends the budget on weights that a strategy draws."""

    name: str
    strategy: Callable[[int, int, int], Strategy]
    """Takes the number of weights of a candidate, the number of candidates of a generation, and the seed."""
    max_turns: int = 1

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Search until nothing is left."""
        return turn(
            lambda judge: self._search(_PlayedCandidates(workspace, judge, self.name), workspace.seed), endpoint, stop
        )

    def _search(self, table: "_PlayedCandidates", seed: int) -> str:
        idle = best = Parameters()
        if table.remaining >= 2 * LEAST_POPULATION:
            probe = table.probe()
            table.single(idle)
            best = self._evolve(table, probe, seed)
        while table.remaining:
            table.single(best, table.remaining)
        return f"{table.submissions} submissions"

    def _evolve(self, table: "_PlayedCandidates", probe: _Probe, seed: int) -> Parameters:
        """Play generations while the budget lasts; return the policy that is believed in last."""
        policy = normalised(probe.seen)
        size = max(2, probe.n_scores * (len(policy.projection) + 1))
        population = max(LEAST_POPULATION, min(POPULATION, table.remaining // BUDGET_SHARE))
        strategy = self.strategy(size, population, seed)
        first_spread, later_spread = (FIRST_SPREAD, SPREAD) if probe.graded else (1.0, 1.0)
        count, spread = WIDER_FIRST * population, first_spread
        while table.remaining >= table.price(count) + 2 * table.price(1):
            asked = [strategy.ask(float(factor)) for factor in np.geomspace(1 / spread, spread, count)]
            scores = table.compare(policy, asked)
            strategy.tell(asked, scores)
            table.single(_with(policy, [asked[max(range(count), key=scores.__getitem__)]]))
            table.single(_with(policy, [strategy.believed]))
            count, spread = population, later_spread
        return _with(policy, [strategy.believed])


def _with(policy: Parameters, candidates: Sequence[Numbers]) -> Parameters:
    return replace(policy, candidates=[candidate.tolist() for candidate in candidates])


def _score(returns: Sequence[float]) -> float:
    """Return the mean of returns; what is no number is worse than any."""
    return -math.inf if any(map(math.isnan, returns)) else fmean(returns)


def normalised(seen: Numbers) -> Parameters:
    """Return the view in which what was seen, (steps, numbers), has zero mean and unit variance."""
    center, deviation = seen.mean(axis=0), seen.std(axis=0)
    scale = 1 / np.where(deviation > 1e-6, deviation, 1.0)  # noqa: PLR2004 - what never changed has no scale
    projection = np.diag(scale)
    if len(scale) > MOST_FEATURES:
        projection = _principal((seen - center) * scale) * scale
    return Parameters(center=center.tolist(), projection=projection.tolist())


def _principal(data: Numbers) -> Numbers:
    """Return the largest principal components, (components, numbers), each scaled to unit variance."""
    _, lengths, components = np.linalg.svd(data, full_matrices=False)
    if not lengths[0]:
        return np.eye(MOST_FEATURES, data.shape[1])
    kept = lengths[:MOST_FEATURES] > 1e-6 * lengths[0]
    chosen = components[:MOST_FEATURES][kept]
    largest = np.take_along_axis(chosen, np.abs(chosen).argmax(axis=1, keepdims=True), axis=1)
    deviations = lengths[:MOST_FEATURES][kept] / np.sqrt(len(data))
    return np.asarray(np.sign(largest) * chosen / deviations[:, None])


class _PlayedCandidates:
    """The workspace and the judge together: lays a policy out, has it played, keeps count."""

    def __init__(self, workspace: Workspace, judge: JudgeClient, name: str) -> None:
        self._workspace, self._judge, self._name = workspace, judge, name
        self._info = judge.info()
        self.remaining = self._info.episode_budget
        self.submissions = 0
        self._next_case = 0

    def price(self, candidates: int) -> int:
        """Return how many episodes it takes to play so many candidates."""
        whole, rest = divmod(candidates, self._info.max_episodes)
        return whole * self._info.max_episodes + (max(rest, self._info.min_episodes) if rest else 0)

    def probe(self) -> _Probe:
        """Play at random; return what was learnt."""
        count = self._info.portion(min(PROBE_EPISODES, self.remaining // BUDGET_SHARE or 1), self.remaining)
        summary = self._submit(Parameters(probing=True), self._cases(count))
        episodes = self._workspace.directory / "feedback" / f"submit_{summary.submit_id:03d}" / "episodes"
        lines = [file.read_text(encoding="utf-8").splitlines() for file in sorted(episodes.glob("*/stdout.txt"))]
        if not lines or not all(lines):
            raise AgentError("The probe's output is not in the feedback, so it can't be known what is seen.")
        n_scores, graded = map(int, lines[0][0].split())
        seen = np.array([[float(number) for number in line.split()] for of in lines for line in of[1:]])
        return _Probe(n_scores, bool(graded), np.nan_to_num(seen))

    def compare(self, policy: Parameters, candidates: Sequence[Numbers]) -> list[float]:
        """Return the mean return of each candidate, all played on the same cases."""
        scores: list[float] = []
        while chosen := candidates[len(scores) : len(scores) + self._info.max_episodes]:
            count = self._info.portion(len(chosen), self.remaining)
            indices = self._info.cases(self._next_case, -(-count // len(chosen)))
            summary = self._submit(_with(policy, chosen), [indices[k // len(chosen)] for k in range(count)])
            scores += [_score(summary.returns[place :: len(chosen)]) for place in range(len(chosen))]
        self._next_case += 1
        return scores

    def single(self, policy: Parameters, episodes: int = 1) -> None:
        """Submit a policy of at most one candidate, so that it can be chosen in the end."""
        self._submit(policy, self._cases(self._info.portion(episodes, self.remaining)))

    def _cases(self, count: int) -> list[int]:
        self._next_case += count
        return self._info.cases(self._next_case - count, count)

    def _submit(self, policy: Parameters, indices: Sequence[int]) -> Summary:
        self._lay_out(policy)
        summary = self._judge.submit(indices, f"{self._name}-{self.submissions}")
        if not summary.returns:
            raise AgentError(f"The linear policy could not be played: {summary.status}.")
        self.remaining = summary.remaining_budget
        self.submissions += 1
        return summary

    def _lay_out(self, policy: Parameters) -> None:
        for file in (files("evopolicygym.agents.kit") / "tuner_policy").iterdir():
            if file.name.endswith(".py"):
                (self._workspace.system / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
        numbers = json.dumps(asdict(policy))
        (self._workspace.system / "parameters.json").write_text(numbers, encoding="utf-8")
