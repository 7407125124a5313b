"""How far two runs of one agent lie apart on a task: the noise floor, and the components of variance behind it.

Runs of an agent on the same cases are a table of runs by cases. Each return is the agent's mean, plus an effect of the
run, one of the case, and a rest; all three are drawn (a crossed design with random effects, Searle, Casella and
McCulloch 1992, chapter 4). Mean squares are pooled over agents by their degrees of freedom.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from evopolicygym.analysis.published.score_tables import shipped
from evopolicygym.analysis.ranking.bootstrap import ROUNDING, Floats, Sample, held_out_sample, joint_freedom, t_quantile
from evopolicygym.analysis.ranking.comparability import COMPARED, distinct_runs, property_of
from evopolicygym.records.rows import RunRow

SHIPPED = "baselines"
"""The shipped table that has repeats."""


@dataclass(frozen=True, slots=True)
class PooledVariance:
    """The variance between the means of an agent's runs, pooled over agents by degrees of freedom."""

    variance: float
    """0 without a repeated agent, and where the runs of each are equal: then how far others lie apart is unknown."""
    freedom: float
    """After Satterthwaite (1946), as agents' variances differ; 0 without a repeated agent, infinite if none varies."""
    runs: int
    """Of repeated agents."""
    agents: int
    """Repeated ones."""


def pool_run_variances(samples: Iterable[Sample]) -> PooledVariance:
    """Return the pooled variance between run means, over agents with two runs at least.

    It is the sum of (R - 1) s^2 over the sum of R - 1, where s^2 is the variance of an agent's R run means over their
    held-out cases; runs on the same cases share the cases' effects, which cancel.
    """
    repeated = [sample for sample in samples if sample.is_repeated and np.isfinite(sample.runs).all()]
    nothing = (ROUNDING * max((float(np.abs(sample.runs).max()) for sample in repeated), default=0.0)) ** 2
    freedoms = [len(sample.runs) - 1.0 for sample in repeated]
    parts = [
        freedom * float(sample.runs.var(ddof=1)) / sum(freedoms)
        for sample, freedom in zip(repeated, freedoms, strict=True)
    ]
    freedom = joint_freedom(parts, freedoms) if repeated else 0.0
    variance = math.fsum(parts) if math.fsum(parts) > nothing else 0.0
    return PooledVariance(variance, freedom, sum(len(sample.runs) for sample in repeated), len(repeated))


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """The parts of the variance of a single return; none is below 0."""

    runs: float
    """Between an agent's runs."""
    cases: float
    """Between cases, shared by an agent's runs."""
    rest: float
    """Of a run on a case."""

    @property
    def within(self) -> float:
        """The variance of a run's returns over cases."""
        return self.cases + self.rest

    @property
    def intraclass_correlation(self) -> float | None:
        """The share of the variance of a return that lies between runs; None without variance.

        It is ICC(2,1) of Shrout and Fleiss (1979), with runs as targets and cases as judges: runs / (runs + cases +
        rest).
        """
        return self.runs / total if (total := self.runs + self.within) > 0 else None


def variance_components(samples: Iterable[Sample]) -> VarianceComponents | None:
    """Return the components by analysis of variance; None without an agent with two runs on two cases.

    With the mean squares MS of R runs on C cases: rest = MS(rest), runs = (MS(runs) - MS(rest)) / C, cases =
    (MS(cases) - MS(rest)) / R (Searle, Casella and McCulloch 1992, section 4.4); the means over agents are weighted by
    the degrees of freedom R - 1, C - 1 and (R - 1) (C - 1).
    """
    tables = [block.returns for sample in samples for block in sample.blocks if min(block.returns.shape) > 1]
    tables = [table for table in tables if np.isfinite(table).all()]
    if not tables:
        return None
    rests = [_rest_mean_square(table) for table in tables]
    runs = [table.mean(axis=1).var(ddof=1) - rest / table.shape[1] for table, rest in zip(tables, rests, strict=True)]
    cases = [table.mean(axis=0).var(ddof=1) - rest / len(table) for table, rest in zip(tables, rests, strict=True)]
    of_runs = [len(table) - 1.0 for table in tables]
    of_cases = [table.shape[1] - 1.0 for table in tables]
    both = [first * second for first, second in zip(of_runs, of_cases, strict=True)]
    return VarianceComponents(
        max(0.0, float(np.average(runs, weights=of_runs))),
        max(0.0, float(np.average(cases, weights=of_cases))),
        float(np.average(rests, weights=both)),
    )


def _rest_mean_square(table: Floats) -> float:
    rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    return float(np.square(rest).sum() / ((len(table) - 1) * (table.shape[1] - 1)))


def case_interaction(samples: Sequence[Sample]) -> float | None:
    """Return the variance over cases of the difference between two agents' expected returns; None without a pair.

    The mean over pairs of agents on the same cases of the variance of the cases' differences, less what the runs'
    rests contribute to it; at least 0. Agents that find the same cases hard have little of it.
    """
    blocks: dict[tuple[Hashable, int], list[Floats]] = defaultdict(list)
    for sample in samples:
        for block in sample.blocks:
            if min(block.returns.shape) > 1 and np.isfinite(block.returns).all():
                blocks[block.cases, block.returns.shape[1]].append(block.returns)
    variances = [
        float((first.mean(axis=0) - other.mean(axis=0)).var(ddof=1))
        - _rest_mean_square(first) / len(first)
        - _rest_mean_square(other) / len(other)
        for tables in blocks.values()
        for first, other in combinations(tables, 2)
    ]
    return max(0.0, float(np.mean(variances))) if variances else None


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """How far runs of one agent lie apart on a task; unknown if the runs of each agent are equal."""

    pooled: PooledVariance
    components: VarianceComponents | None
    """None without two runs of an agent on two cases or more."""
    interaction: float | None
    """As ``case_interaction``."""

    def between(self, first: int, second: int) -> float:
        """Return how far means of two sets of one agent's runs on the same cases lie apart at most, in 95 % of pairs.

        It is t * sqrt(s^2 (1 / m + 1 / n)) for m and n runs, with Student's quantile at the pooled variance's degrees
        of freedom: the repeatability limit of ISO 5725-6 (1994), Bland and Altman's (1986) coefficient of
        repeatability at m = n = 1.
        """
        return float(t_quantile(self.pooled.freedom) * math.sqrt(self.pooled.variance * (1 / first + 1 / second)))

    @property
    def single_runs(self) -> float | None:
        """The floor between two single runs on the same cases; None if it is unknown."""
        return self.between(1, 1) if self.pooled.variance > 0 else None

    @property
    def standard_deviation(self) -> float | None:
        """Between an agent's runs; None if it is unknown."""
        return math.sqrt(self.pooled.variance) if self.pooled.variance > 0 else None

    @property
    def intraclass_correlation(self) -> float | None:
        """The share of a return's variance that lies between runs."""
        return self.components.intraclass_correlation if self.components else None


def noise_floor(samples: Sequence[Sample]) -> NoiseFloor | None:
    """Return the noise floor of a task from agents' samples; None if no agent has two runs."""
    pooled = pool_run_variances(samples)
    if not pooled.agents:
        return None
    return NoiseFloor(pooled, variance_components(samples), case_interaction(samples))


@dataclass(frozen=True, slots=True)
class NoiseComparison:
    """A difference beside the noise floor of its runs."""

    difference: float
    floor: float

    @property
    def is_beyond(self) -> bool:
        """Whether the difference is larger than 95 % of those between equal agents' runs."""
        return abs(self.difference) > self.floor


def compare_to_noise(tasks: Sequence[tuple[Sample | None, Sample | None, float]]) -> NoiseComparison | None:
    """Return a mean difference over tasks beside that of equal agents' runs; None if that is unknown on a task.

    Each task has the samples of both sides and the length of its scale; s^2 is pooled over the repeats of both. Tasks
    are independent: the variances s^2 (1 / m + 1 / n) / scale^2 are added and divided by the tasks' number squared;
    degrees of freedom are Satterthwaite's. Cases that were not the same add their variance. Noise is unknown without
    repeats, and where all repeats of both are equal.
    """
    parts, freedoms, differences = [], [], []
    for first, second, scale in tasks:
        if first is None or second is None:
            return None
        pooled = pool_run_variances([first, second])
        if not pooled.variance > 0:
            return None
        of_cases = 0.0 if _cases(first) == _cases(second) else first.of_cases + second.of_cases
        variance = pooled.variance * (1 / len(first.runs) + 1 / len(second.runs)) + of_cases
        parts.append(variance / (scale * len(tasks)) ** 2)
        freedoms.append(pooled.freedom)
        differences.append((first.mean - second.mean) / (scale * len(tasks)))
    if not parts or not np.isfinite(differences).all():
        return None
    floor = t_quantile(joint_freedom(parts, freedoms)) * math.sqrt(sum(parts))
    return NoiseComparison(math.fsum(differences), floor)


def _cases(sample: Sample) -> set[tuple[Hashable, int]]:
    return {(block.cases, block.returns.shape[1]) for block in sample.blocks}


def repeated_samples(runs: Sequence[RunRow], *, with_shipped: bool = True) -> Mapping[str, Sequence[Sample]]:
    """Return agents' samples by task, from runs and the shipped runs of the same environments, perhaps other tasks.

    Repeats agree in all that comparable runs agree in, cases included, and identical runs count once.
    """
    environments = {run.task: run.environment for run in runs}
    baselines = shipped(SHIPPED).runs if with_shipped else ()
    same = [run for run in baselines if run.task not in environments or environments[run.task].is_same(run.environment)]
    groups: dict[tuple[str, str], list[RunRow]] = defaultdict(list)
    for run in distinct_runs([*runs, *same])[0]:
        settings = [property_of(run, name) for name in (*COMPARED, "effort", "options_text")]
        groups[run.task, repr((run.agent, settings))].append(run)
    samples: dict[str, list[Sample]] = defaultdict(list)
    for (task, _), repeats in groups.items():
        random = next((run.random_anchor.mean for run in repeats if run.random_anchor), None)
        sample = held_out_sample([((run.task, run.commitment), run.held_out_returns) for run in repeats], random)
        if sample is not None:
            samples[task].append(sample)
    return samples
