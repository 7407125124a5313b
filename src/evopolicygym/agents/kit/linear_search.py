"""Search over the weights of a small linear policy, shared by ``tuner`` and ``random_search``.

It uses no knowledge of an environment. Random play first shows how observations are distributed. Then populations play:
a submission holds many candidates, and each of its episodes is played by one of them, all on the same train case. After
each generation the best candidate and the strategy's estimate are submitted alone, because a whole population is a poor
checkpoint. Everything follows from the run's seed and the feedback, so a resumed run repeats the same requests and gets
the recorded results. Each agent brings a strategy that draws candidates; the policy is ``tuner_policy/policy.py``.
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
from evopolicygym.core.text import counted

POPULATION, LEAST_POPULATION = 10, 4
BUDGET_SHARE = 10
"""A population is at most this fraction of the budget, so that several generations fit into a small one."""
WIDER_FIRST = 3
"""Size of the first generation as a multiple of the population."""
MOST_FEATURES = 10
"""Larger observations are reduced to this many principal components."""
STEP = 0.2
"""The initial step size, for features of unit variance."""
SPREAD, FIRST_SPREAD = 3.0, 8.0
"""If the magnitude of weights matters, a population's steps are scaled by factors from 1/spread to spread, since the
best step size is not known."""
PROBE_EPISODES = 2

Numbers = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Parameters:
    """The content of ``parameters.json``."""

    probing: bool = False
    center: Sequence[float] = ()
    """Shape (observed numbers,)."""
    projection: Sequence[Sequence[float]] = ()
    """Shape (features, observed numbers)."""
    candidates: Sequence[Sequence[float]] = ()
    """Shape (candidates, weights)."""


@dataclass(frozen=True, slots=True)
class _Probe:
    """The results of random play."""

    n_scores: int
    """Number of scores for each action."""
    graded: bool
    """Whether the magnitude of a score matters, not only which score is largest."""
    observations: Numbers
    """Shape (steps, numbers)."""


class Strategy(Protocol):
    """Draws candidates."""

    def ask(self, factor: float) -> Numbers:
        """Return a candidate at ``factor`` times the strategy's step from its centre."""

    def tell(self, candidates: Sequence[Numbers], scores: Sequence[float]) -> None:
        """Update the strategy by a generation."""

    @property
    def estimate(self) -> Numbers:
        """The strategy's current estimate of the best candidate."""


@dataclass(slots=True)
class LinearSearchAgent:
    """Spends the budget on weights that a strategy draws."""

    name: str
    strategy: Callable[[int, int, int], Strategy]
    """Called with the number of weights of a candidate, the population size, and the seed."""
    max_turns: int = 1
    reads_output: bool = True

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Search until the budget is spent."""
        return turn(
            lambda judge: self._search(_CandidatePlayer(workspace, judge, self.name), workspace.seed), endpoint, stop
        )

    def _search(self, player: "_CandidatePlayer", seed: int) -> str:
        idle = best = Parameters()
        if player.remaining >= 2 * LEAST_POPULATION:
            probe = player.probe()
            player.single(idle)
            best = self._evolve(player, probe, seed)
        while player.remaining:
            player.single(best, player.remaining)
        return counted(player.submissions, "submission")

    def _evolve(self, player: "_CandidatePlayer", probe: _Probe, seed: int) -> Parameters:
        """Play generations until the budget is spent; return the final policy."""
        policy = normalised(probe.observations)
        size = max(2, probe.n_scores * (len(policy.projection) + 1))
        population = max(LEAST_POPULATION, min(POPULATION, player.remaining // BUDGET_SHARE))
        strategy = self.strategy(size, population, seed)
        first_spread, later_spread = (FIRST_SPREAD, SPREAD) if probe.graded else (1.0, 1.0)
        count, spread = WIDER_FIRST * population, first_spread
        while player.remaining >= player.price(count) + 2 * player.price(1):
            candidates = [strategy.ask(float(factor)) for factor in np.geomspace(1 / spread, spread, count)]
            scores = player.compare(policy, candidates)
            strategy.tell(candidates, scores)
            player.single(_with(policy, [candidates[max(range(count), key=scores.__getitem__)]]))
            player.single(_with(policy, [strategy.estimate]))
            count, spread = population, later_spread
        return _with(policy, [strategy.estimate])


def _with(policy: Parameters, candidates: Sequence[Numbers]) -> Parameters:
    return replace(policy, candidates=[candidate.tolist() for candidate in candidates])


def _score(returns: Sequence[float]) -> float:
    """Return the mean of returns; NaN counts as worst."""
    return -math.inf if any(map(math.isnan, returns)) else fmean(returns)


def normalised(observations: Numbers) -> Parameters:
    """Return the projection that gives these observations, (steps, numbers), zero mean and unit variance."""
    center, deviation = observations.mean(axis=0), observations.std(axis=0)
    scale = 1 / np.where(deviation > 1e-6, deviation, 1.0)  # noqa: PLR2004 - constants keep their scale
    projection = np.diag(scale)
    if len(scale) > MOST_FEATURES:
        projection = _principal((observations - center) * scale) * scale
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


class _CandidatePlayer:
    """Writes policies to the workspace, submits them, and tracks the budget."""

    def __init__(self, workspace: Workspace, judge: JudgeClient, name: str) -> None:
        self._workspace, self._judge, self._name = workspace, judge, name
        self._info = judge.info()
        self.remaining = self._info.episode_budget
        self.submissions = 0
        self._next_case = 0

    def price(self, candidates: int) -> int:
        """Return the number of episodes for playing this many candidates."""
        whole, rest = divmod(candidates, self._info.max_episodes)
        return whole * self._info.max_episodes + (max(rest, self._info.min_episodes) if rest else 0)

    def probe(self) -> _Probe:
        """Play at random and return the results."""
        count = self._info.portion(min(PROBE_EPISODES, self.remaining // BUDGET_SHARE or 1), self.remaining)
        summary = self._submit(Parameters(probing=True), self._cases(count))
        episodes = self._workspace.directory / "feedback" / f"submit_{summary.submit_id:03d}" / "episodes"
        lines = [file.read_text(encoding="utf-8").splitlines() for file in sorted(episodes.glob("*/stdout.txt"))]
        if not lines or not all(lines):
            raise AgentError("The feedback lacks the probe's output, which lists its observations.")
        n_scores, graded = map(int, lines[0][0].split())
        observations = np.array(
            [[float(number) for number in line.split()] for episode in lines for line in episode[1:]]
        )
        return _Probe(n_scores, bool(graded), np.nan_to_num(observations))

    def compare(self, policy: Parameters, candidates: Sequence[Numbers]) -> list[float]:
        """Return the mean return of each candidate; all play the same cases."""
        scores: list[float] = []
        while batch := candidates[len(scores) : len(scores) + self._info.max_episodes]:
            count = self._info.portion(len(batch), self.remaining)
            indices = self._info.cases(self._next_case, -(-count // len(batch)))
            summary = self._submit(_with(policy, batch), [indices[k // len(batch)] for k in range(count)])
            scores += [_score(summary.returns[offset :: len(batch)]) for offset in range(len(batch))]
        self._next_case += 1
        return scores

    def single(self, policy: Parameters, episodes: int = 1) -> None:
        """Submit a policy of at most one candidate, so that it can be selected at the end."""
        self._submit(policy, self._cases(self._info.portion(episodes, self.remaining)))

    def _cases(self, count: int) -> list[int]:
        self._next_case += count
        return self._info.cases(self._next_case - count, count)

    def _submit(self, policy: Parameters, indices: Sequence[int]) -> Summary:
        self._write(policy)
        summary = self._judge.submit(indices, f"{self._name}-{self.submissions}")
        if not summary.returns:
            raise AgentError(f"The linear policy could not be played: {summary.status}.")
        self.remaining = summary.remaining_budget
        self.submissions += 1
        return summary

    def _write(self, policy: Parameters) -> None:
        for file in (files("evopolicygym.agents.kit") / "tuner_policy").iterdir():
            if file.name.endswith(".py"):
                (self._workspace.system / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
        numbers = json.dumps(asdict(policy))
        (self._workspace.system / "parameters.json").write_text(numbers, encoding="utf-8")
