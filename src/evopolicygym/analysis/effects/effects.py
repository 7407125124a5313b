"""The effects of knobs on scores: means of levels, and paired differences between levels.

A pair is two runs of an agent on an environment with the same seed that differ in one knob alone. Differences are of
normalised scores, held-out case by held-out case. ``docs/measure/effects.md`` defines the estimand.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from evopolicygym.analysis.effects.estimate import MeanEstimate, MeasuredGroup, Spread, mean_estimate
from evopolicygym.analysis.ranking.bootstrap import Floats
from evopolicygym.analysis.ranking.comparability import OF_ENTRIES, TableFilter, differences, distinct_runs, property_of
from evopolicygym.analysis.ranking.decision import holm
from evopolicygym.analysis.ranking.score_table import MISSING_SCORES, score_table
from evopolicygym.analysis.ranking.task_scale import TaskScale, ranked_among, scale_on
from evopolicygym.core.agent import LIMITS
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.options import RUN_OPTIONS
from evopolicygym.core.text import shell_word
from evopolicygym.core.world import STANDARD
from evopolicygym.records.rows import RunRow

HARNESS, MODEL = "harness", "model"
ALLOWANCE = {option: name for name, option in LIMITS.items()}
"""Knobs of an agent's allowance, and what an allowance calls them."""
RECORDED = {option.name: option.record_field or option.name for option in RUN_OPTIONS if option.is_knob}
"""The property of a run that has the level of a knob."""
DEFAULTS = {option.name: option.default for option in RUN_OPTIONS if option.is_knob}
KNOBS = (*RECORDED, HARNESS)
"""The knobs whose effects can be computed."""
WORLD = "world"
UNASKED = {HARNESS, MODEL}
"""The knobs that are compared only on request."""
OF_TASK = {name: recorded for name, recorded in RECORDED.items() if recorded in OF_ENTRIES}


def level_of(run: RunRow, knob: str) -> Any:  # noqa: ANN401 - any knob's
    """Return the level that a run has of a knob."""
    if knob == HARNESS:
        return run.agent_kind
    if knob == MODEL:
        return run.model or ""
    if knob in ALLOWANCE:
        return getattr(run.allowance, ALLOWANCE[knob])
    return property_of(run, RECORDED[knob])


def agent_of(run: RunRow, knobs: Iterable[str]) -> tuple[Hashable, ...]:
    """Return the identity of a run's agent without the knobs that are compared."""
    own = {HARNESS: run.agent_kind, MODEL: run.model, "effort": run.effort}
    own |= {name: level_of(run, name) for name in ALLOWANCE}
    identity = run.options_text, *run.command, *run.programs, run.label or ""
    return (*(own[name] for name in own if name not in set(knobs)), *identity)


def knobs_that_differ(runs: Sequence[RunRow], requested: Sequence[str] = ()) -> dict[str, tuple[Any, ...]]:
    """Return the levels of each requested knob, or of each knob that differs between runs of an agent on a task.

    Raises ``UsageError`` for an unknown knob, or if nothing differs.
    """
    if unknown := [name for name in requested if name not in KNOBS]:
        raise UnknownName("knob", unknown[0], KNOBS)
    levels_by_knob = {name: _levels(runs, name) for name in requested or KNOBS if requested or _differs(runs, name)}
    several = {name: levels for name, levels in levels_by_knob.items() if len(levels) > 1}
    if not several or len(several) < len(requested):
        alike = ", ".join(name for name in requested if name not in several) or "every knob"
        raise UsageError(
            f"Invalid runs: expected several levels of {alike}, got one level in all {len(runs)} runs. "
            "Run a suite that crosses a knob, such as evopolicygym suite NAME --cross budget=8,32, or name more runs."
        )
    return several


def _scale_name(run: RunRow, knobs: Iterable[str]) -> str:
    """Return the name of the scale that a run's returns are on: where worlds are compared, each has its own."""
    world = level_of(run, WORLD) if WORLD in knobs else STANDARD
    return run.task if world == STANDARD else f"{run.task} in {world}"


def refuse_other_differences(runs: Sequence[RunRow], knobs: Collection[str]) -> None:
    """Raise ``UsageError`` if runs on a task differ in more than the knobs."""
    # Pairs are of one allowance, or differ by it.
    by = {"limits", *(OF_TASK[name] for name in knobs if name in OF_TASK)}
    if others := differences([replace(run, task=_scale_name(run, knobs)) for run in runs], by):
        listed = "\n- ".join(others.values())
        also = [name for name, recorded in OF_TASK.items() if recorded in others]
        ways = ["name only the runs of one suite (one directory or several)"]
        ways += [f"compare these levels too, with --knobs {','.join([*knobs, *also])}"] if also else []
        raise UsageError(
            f"These runs differ in more than {', '.join(knobs)}:\n- {listed}\nTo compare them, {', or '.join(ways)}."
        )


def _differs(runs: Sequence[RunRow], knob: str) -> bool:
    """Return whether a knob differs between runs; for an agent's knob, between runs of otherwise the same agent."""
    if knob in UNASKED:
        return False
    levels: dict[Hashable, set[str]] = defaultdict(set)
    for run in runs:
        levels[() if knob in OF_TASK else (run.task, agent_of(run, [knob]))].add(str(level_of(run, knob)))
    return any(len(each) > 1 for each in levels.values())


def _levels(runs: Sequence[RunRow], knob: str) -> tuple[Any, ...]:
    """Return the levels in order: numbers by size, else the default first; no limit is the largest."""
    levels: Mapping[str, Any] = {str(level): level for level in (level_of(run, knob) for run in runs)}
    numbers = all(level is None or isinstance(level, (int, float)) for level in levels.values())

    def order(level: Any) -> tuple[bool, Any]:  # noqa: ANN401 - any knob's
        if numbers:
            return (level is None, level or 0)
        return (level != DEFAULTS.get(knob), str(level))

    return tuple(sorted(levels.values(), key=order))


FAR_BELOW = -1.0
"""A normalised mean below this moves an average over environments more than any success can."""


@dataclass(frozen=True, slots=True)
class LevelMean:
    """The mean normalised score at a level of a knob."""

    knob: str
    level: Any
    environments: int
    runs: int
    mean: MeanEstimate


@dataclass(frozen=True, slots=True)
class LevelDifference:
    """The paired difference between two levels of a knob."""

    knob: str
    level: Any
    """The level whose mean is the minuend."""
    over: Any
    environment: str
    """Empty for the mean over environments."""
    environments: int
    pairs: int
    difference: MeanEstimate
    """The difference of normalised scores."""
    returns: float | None
    """The difference of returns; None over several environments, and between worlds on scales of their own."""
    p_adjusted: float | None = None
    """The p-value, adjusted by Holm over all differences of the table."""


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of all knobs."""

    knobs: Mapping[str, tuple[Any, ...]]
    """The levels of each."""
    means: tuple[LevelMean, ...]
    differences: tuple[LevelDifference, ...]
    """The differences of each two levels of each knob: over all environments, then by environment."""
    notes: tuple[str, ...]
    scales: Mapping[str, TaskScale]
    """The ends of the normalised scale, by environment; none in returns."""
    paired: Mapping[str, tuple[int, int]]
    """By knob, the runs that are in pairs, and all runs."""

    @property
    def in_returns(self) -> bool:
        """Whether differences are of returns, and not of normalised scores."""
        return not self.scales

    @property
    def overall(self) -> tuple[LevelDifference, ...]:
        """The differences over all environments."""
        return tuple(contrast for contrast in self.differences if not contrast.environment)

    @property
    def by_environment(self) -> tuple[LevelDifference, ...]:
        """The differences of each environment."""
        return tuple(contrast for contrast in self.differences if contrast.environment)


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A run's scores with what it is paired by."""

    environment: str
    agent: Hashable
    seed: int | None
    levels: Mapping[str, Any]
    """The levels of the knobs that are compared."""
    scores: Floats
    """Normalised, by held-out case."""

    def block(self, knob: str) -> Hashable:
        """Return what the two runs of a pair have in common."""
        others = tuple(str(level) for name, level in self.levels.items() if name != knob)
        return (self.environment, self.agent, self.seed, others)


Block = Mapping[str, list[ScoredRun]]
"""The runs that differ in one knob alone, by its level."""
WITHOUT_SCORE = "A run without a checkpoint to score counts as uniform random, or as its agent's worst other run there."


def effects(runs: Sequence[RunRow], requested: Sequence[str] = (), *, in_returns: bool = False) -> Effects:
    """Return the effects of the requested knobs, or of all that differ; raise ``UsageError`` for other differences.

    Agents' names and models are knobs only on request. ``in_returns`` has them in returns, environment by environment.
    """
    knobs = knobs_that_differ(runs, requested)
    refuse_other_differences(runs, list(knobs))
    runs, repeated = distinct_runs(runs)
    scales, notes = _scales(runs, knobs)
    notes = [*repeated, *notes]
    if in_returns:
        scales = {}
    elif not scales:
        raise UsageError(f"{notes[-1]} Scores can't be normalised. Add runs with better agents, or pass --in-returns.")
    worst = _worst_means(runs, knobs)
    scored = [
        _score_run(run, knobs, worst[name, agent_of(run, knobs)], scales.get(name))
        for run in runs
        if (name := _scale_name(run, knobs)) in scales or in_returns
    ]
    notes += [WITHOUT_SCORE] if not all(run.held_out_returns for run in runs) else []
    return effects_of(scored, knobs, scales, notes)


def _worst_means(runs: Iterable[RunRow], knobs: Iterable[str]) -> dict[tuple[str, Hashable], float]:
    """Return the mean that a run without a score counts with, by environment and agent: to fail never pays."""
    worst: dict[tuple[str, Hashable], float] = {}
    for run in runs:
        means = [run.score] if run.score is not None else []
        means += [run.random_anchor.mean] if run.random_anchor else []
        key = _scale_name(run, knobs), agent_of(run, knobs)
        worst[key] = min([*means, worst.get(key, math.inf)])
    return worst


def effects_of(
    runs: Sequence[ScoredRun],
    knobs: Mapping[str, Sequence[Any]],
    scales: Mapping[str, TaskScale],
    notes: Sequence[str] = (),
) -> Effects:
    """Return the effects of knobs on the scores of runs; raise ``UsageError`` if no two of them are a pair."""
    means, contrasts, all_notes, paired = [], [], list(notes), {}
    for knob, levels in knobs.items():
        blocks = _blocks(runs, knob)
        paired[knob] = _count_runs(block for block in blocks if len(block) > 1), _count_runs(blocks)
        if any(len(block) > 1 for block in blocks):
            means += _means(knob, levels, blocks, in_returns=not scales)
            for over, level in combinations(levels, 2):
                contrasts += _differences(knob, over, level, blocks, scales)
            if paired[knob][0] < paired[knob][1]:
                all_notes.append(
                    f"{knob}: {paired[knob][0]} of {paired[knob][1]} runs are in pairs. The others have no partner of "
                    "the same agent, environment and seed at another level, and count nowhere."
                )
        else:
            all_notes.append(f"No two runs are a pair that differs in {knob} alone: nothing is said of it.")
    if not contrasts:
        raise UsageError(_no_pairs(knobs))
    levels_of = {knob: tuple(levels) for knob, levels in knobs.items()}
    adjusted = tuple(_adjust_p_values(contrasts))
    return Effects(
        levels_of, tuple(means), adjusted, (*all_notes, *_notes(contrasts, means if scales else ())), scales, paired
    )


def _count_runs(blocks: Iterable[Block]) -> int:
    return sum(len(runs) for block in blocks for runs in block.values())


def _scales(runs: Sequence[RunRow], knobs: Mapping[str, Any]) -> tuple[dict[str, TaskScale], list[str]]:
    """Return the normalised scale of each task, and notes on the runs."""
    table = score_table(_one_entry_a_level(runs, knobs), (), TableFilter(mix=True))
    counts = ranked_among(table, partial=False)
    scales = {task.name: scale for task in table.tasks if (scale := scale_on(table, task.name, counts))}
    bare = [task.name for task in table.tasks if task.name not in scales]
    notes = [note for note in table.notes if not note.startswith("Mixed: ") and note not in MISSING_SCORES]
    if bare:
        unknown = [task for task in bare if not any(run.random_anchor for run in runs if run.task == task)]
        chance = [task for task in bare if task not in unknown]
        if chance:
            notes.append(
                f"Left out, as no agent is above uniform random there by more than noise: {', '.join(chance)}."
            )
        if unknown:
            notes.append(
                f"Left out, as what random play scores is unknown: {', '.join(unknown)}. Measure it, and it is found: "
                f"evopolicygym anchors {' '.join(map(shell_word, unknown))} (or the file's path)."
            )
    return scales, notes


def _one_entry_a_level(runs: Sequence[RunRow], knobs: Iterable[str]) -> list[RunRow]:
    """Return runs as entries of a table: each agent at each level on its own, and each world with its own task."""
    identities: dict[str, list[tuple[Hashable, ...]]] = defaultdict(list)
    entries = []
    for run in runs:
        of_label, identity = identities[run.agent], agent_of(run, knobs)
        if identity not in of_label:
            of_label.append(identity)
        label = run.agent if identity == of_label[0] else f"{run.agent} {of_label.index(identity) + 1}"
        levels = [f"{knob} {level}" for knob, level in _levels_of(run, knobs).items()]
        entries.append(replace(run, agent=", ".join([label, *levels]), task=_scale_name(run, knobs)))
    return entries


def _levels_of(run: RunRow, knobs: Iterable[str]) -> dict[str, Any]:
    return {knob: level_of(run, knob) for knob in knobs}


def _score_run(run: RunRow, knobs: Mapping[str, Any], worst: float, scale: TaskScale | None) -> ScoredRun:
    """Return a run's scores, by held-out case: normalised, or its returns without a scale."""
    scores = np.array(run.held_out_returns or (worst,) * max(1, run.held_out_cases or 0), dtype=float)
    if scale is not None:
        scores = (scores - scale.low) / (scale.best - scale.low)
    return ScoredRun(run.task, agent_of(run, knobs), run.seed, _levels_of(run, knobs), scores)


def _blocks(runs: Iterable[ScoredRun], knob: str) -> list[Block]:
    blocks: dict[Hashable, dict[str, list[ScoredRun]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        blocks[run.block(knob)][str(run.levels[knob])].append(run)
    return [dict(block) for block in blocks.values()]


def _at(block: Block, level: object) -> Floats:
    return _mean([run.scores for run in block[str(level)]])


def _mean(several: Sequence[Floats]) -> Floats:
    return several[0] if len(several) == 1 else np.asarray(np.mean(several, axis=0))


def _means(knob: str, levels: Sequence[Any], blocks: Iterable[Block], *, in_returns: bool) -> list[LevelMean]:
    """Return the mean of each level over the blocks with all levels, so that means differ by the level alone.

    Returns of several environments have no mean.
    """
    whole = [block for block in blocks if len(block) == len(levels)]
    if not whole or (in_returns and len({_first(block).environment for block in whole}) > 1):
        return []
    runs = {str(level): sum(len(block[str(level)]) for block in whole) for level in levels}
    means = []
    for level in levels:
        groups = _groups([(_first(block), _at(block, level)) for block in whole])
        environments = len({group.environment for group in groups})
        means.append(LevelMean(knob, level, environments, runs[str(level)], mean_estimate(groups)))
    return means


def _differences(
    knob: str, over: object, level: object, blocks: Iterable[Block], scales: Mapping[str, TaskScale]
) -> list[LevelDifference]:
    """Return the difference of two levels over all environments, and that of each of several."""
    pairs = [
        (_first(block), _at(block, level) - _at(block, over))
        for block in blocks
        if str(level) in block and str(over) in block
    ]
    if not pairs:
        return []
    names = sorted({run.environment for run, _ in pairs})

    def row(environment: str, those: Sequence[tuple[ScoredRun, Floats]]) -> LevelDifference:
        estimate = mean_estimate(_groups(those))
        scale = scales.get(names[0] if len(names) == 1 else environment)
        returns = estimate.value if not scales else None
        if scale and knob != WORLD:  # worlds have a scale each
            returns = estimate.value * (scale.best - scale.low)
        count = 1 if environment else len(names)
        return LevelDifference(knob, level, over, environment, count, len(those), estimate, returns)

    of_each = [row(name, [pair for pair in pairs if pair[0].environment == name]) for name in names]
    over_all = [] if not scales and len(names) > 1 else [row("", pairs)]
    return [*over_all, *(of_each if len(names) > 1 else [])]


def _first(block: Block) -> ScoredRun:
    return next(iter(block.values()))[0]


def _groups(measured: Iterable[tuple[ScoredRun, Floats]]) -> list[MeasuredGroup]:
    """Return the values by environment and agent; a row is a seed, over all levels of the other knobs."""
    rows: dict[tuple[str, Hashable], dict[int | None, list[Floats]]] = defaultdict(lambda: defaultdict(list))
    for run, values in measured:
        rows[run.environment, run.agent][run.seed].append(values)
    return [
        MeasuredGroup(environment, np.array([_mean(each) for each in seeds.values()]))
        for (environment, _), seeds in rows.items()
    ]


def _adjust_p_values(contrasts: Sequence[LevelDifference]) -> list[LevelDifference]:
    adjusted = holm([contrast.difference.p for contrast in contrasts])
    return [replace(contrast, p_adjusted=p) for contrast, p in zip(contrasts, adjusted, strict=True)]


def _notes(contrasts: Sequence[LevelDifference], means: Sequence[LevelMean]) -> Iterable[str]:
    spreads = {contrast.difference.spread for contrast in contrasts}
    if Spread.AGENTS in spreads or Spread.ENVIRONMENTS in spreads:
        yield (
            "Where there is one repeat each, agents or environments stand for repeats: intervals are wider where the "
            "effect differs between them."
        )
    if Spread.CASES in spreads:
        yield "Intervals of a single pair of runs cover the choice of cases only; no p-value is given for them."
    if Spread.NOTHING in spreads:
        yield "Differences without an interval are the same in every pair, or of a single case."
    if low := sorted(
        {f"{level_mean.knob} {level_mean.level}" for level_mean in means if level_mean.mean.value < FAR_BELOW}
    ):
        yield f"Scores far below random play move the mean over environments at {', '.join(low)}: see each of them."


def _no_pairs(knobs: Iterable[str]) -> str:
    return (
        f"No two of these runs are a pair: the same agent, environment and seed at two levels of {' or '.join(knobs)}, "
        "all else equal. Cross the knob in a suite, by [cross] or --cross."
    )
