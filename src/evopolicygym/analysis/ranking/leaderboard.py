"""The leaderboard: ranks and normalised scores of a table's entries across tasks, with intervals and tiers.

The formulas are those of section 9 of the protocol; ``docs/measure/leaderboard.md`` explains them.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

import numpy as np

from evopolicygym.analysis.money import Money, has_several_prices, mean_cost, price_notes
from evopolicygym.analysis.published.score_tables import AGENT
from evopolicygym.analysis.ranking.bootstrap import (
    Floats,
    Interval,
    Resampler,
    bootstrap_interval,
    interval_coverage,
    joint_freedom,
    mean_rate_interval,
)
from evopolicygym.analysis.ranking.decision import (
    LEVEL,
    UNDECIDED,
    JointDecision,
    decide_jointly,
    decide_samples,
    holm,
    least_joint_p,
)
from evopolicygym.analysis.ranking.noise import NoiseComparison, compare_to_noise
from evopolicygym.analysis.ranking.score_table import Cell, Entry, ScoreTable, TaskRow
from evopolicygym.analysis.ranking.task_scale import BEST, KNOWN, ranked_among, scale_on
from evopolicygym.core.errors import UsageError
from evopolicygym.core.score import mean, rank, rank_scores
from evopolicygym.core.task import TaskKind

UNIT = (0.0, 1.0)
ONE_CASE = "Scores over a single held-out case have no standard error and no interval."
ONE_REPEAT = "Intervals of entries with one repeat cover the choice of cases only, not what another run would do."


@dataclass(frozen=True, slots=True)
class Score:
    """An aggregate with its interval."""

    value: float
    interval: Interval | None
    """None if the entry was only published, as means."""


@dataclass(frozen=True, slots=True)
class TaskScore:
    """The score of an entry on a task."""

    cell: Cell
    rank: int | None
    """None if it has no score."""
    of: int
    """Entries that it is ranked among, itself included."""
    is_counted: bool
    """Whether it counts in the others' ranks; otherwise its own rank does not take a place among them."""
    rank_score: Score
    """0 if it has no score."""
    normalised: Score | None
    """None if the task has no random anchor, or no entry is above it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One line of the leaderboard."""

    entry: Entry
    tasks: Mapping[str, TaskScore]
    complete: bool
    """Whether it has all tasks of the table."""
    rank: int | None
    """By rank score; None if it isn't complete, or has no score at all."""
    tier: int | None
    """Entries of a tier can't be distinguished from its best; None without rank or two repeats on each task."""
    behind_p: float | None
    """The p-value of its distance to the first entry of the tier above, or of its own, adjusted by Holm over all pairs
    of entries with a tier; None for the first of all, and where it is unknown."""
    rank_score: Score
    normalised: Score | None
    families: Mapping[str, Score]
    """Mean rank score by family."""
    kinds: Mapping[str, Score]
    """Mean normalised score by kind."""
    wins: int
    top_2: int
    success_tasks: frozenset[str] = frozenset()
    """The tasks of the table of which some entry's success rate is known."""
    behind_best: NoiseComparison | None = None
    """How far its mean normalised score, not clipped, is below that of the first entry with runs, on the tasks of both,
    beside the noise floor; None for that entry, and where noise is unknown."""

    @property
    def has_score(self) -> bool:
        """Whether it has a score on any task; without one its aggregates mean nothing."""
        return self.entry.has_score

    @property
    def covers(self) -> str | None:
        """The sources that its intervals cover; None without intervals."""
        return interval_coverage(self.entry.is_repeated) if self.rank_score.interval else None

    @property
    def success_rate(self) -> float | None:
        """Mean over its tasks with success rates, 0 on a task without a score; None if any rate is unknown."""
        rates = [cell.success_rate if cell.has_score else 0.0 for cell in self._success_cells]
        return mean_reported(rates) if self.has_score else None

    @property
    def success_interval(self) -> Interval | None:
        """The 95 % interval of that mean; None if that of any rate is unknown."""
        cells = [cell for cell in self._success_cells if cell.has_score]
        known = [
            (rate, own) for cell in cells if (rate := cell.success_rate) is not None and (own := cell.success_interval)
        ]
        if self.success_rate is None or not known or len(known) < len(cells):
            return None
        without_score = [(0.0, Interval(0.0, 0.0))] * (len(self._success_cells) - len(cells))
        return mean_rate_interval(*zip(*known, *without_score, strict=True))

    @property
    def _success_cells(self) -> list[Cell]:
        return [score.cell for name, score in self.tasks.items() if name in self.success_tasks]

    def total(self, of: Callable[[Cell], Sequence[float | None]]) -> float | None:
        """Return a mean over an entry's repeats, summed over tasks; None if any repeat doesn't report it."""
        means = [mean_reported(of(score.cell)) for score in self.tasks.values()]
        known = [value for value in means if value is not None]
        return math.fsum(known) if means and len(known) == len(means) else None

    @property
    def early(self) -> Counter[str]:
        """Runs that ended with episodes unspent, by what ended them."""
        return sum((score.cell.early for score in self.tasks.values()), Counter())

    @property
    def tokens(self) -> float | None:
        """Tokens of one pass over its tasks."""
        return self.total(lambda cell: [run.tokens for run in cell.runs])

    @property
    def cost(self) -> Money | None:
        """Dollars of one pass over its tasks; None also where its runs were played at different prices."""
        means = [mean_cost(score.cell.runs) for score in self.tasks.values()]
        known = [money for money in means if money is not None]
        if not means or len(known) < len(means) or has_several_prices(self.entry.runs):
            return None
        return Money(math.fsum(money.value for money in known), any(money.is_lower_bound for money in known))

    @property
    def wall_s(self) -> float | None:
        """Seconds of one pass over its tasks, in sequence."""
        return self.total(lambda cell: [run.wall_seconds for run in cell.runs])


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The standings, best first; entries that lack tasks come last."""

    tasks: tuple[TaskRow, ...]
    standings: tuple[Standing, ...]
    notes: tuple[str, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of the standings."""
        return tuple(standing.entry for standing in self.standings)


def mean_reported(values: Sequence[float | None]) -> float | None:
    """Return the mean of the reported values; None if any is missing."""
    return None if None in values else mean(values)


def leaderboard(
    table: ScoreTable, *, normalise: str = "best", partial: bool = False, resampler: Resampler | None = None
) -> Leaderboard:
    """Return the leaderboard of a table.

    Scores are normalised by the best agent of the table, by the best entry of another kind such as ``reference``, or
    with ``known`` from the better of random and idle play, 0, to the best known score, 1, without clipping. An
    entry that lacks tasks is ranked against the complete ones, which don't notice it; with ``partial`` all are ranked
    together on what they have.
    """
    return _LeaderboardBuilder(table, normalise, resampler or Resampler(), partial=partial).leaderboard()


class _LeaderboardBuilder:
    """Builds a leaderboard from means and replicates of all entries on all tasks."""

    def __init__(self, table: ScoreTable, normalise: str, resampler: Resampler, *, partial: bool) -> None:
        self._table = table
        self._partial = partial
        self._counts = ranked_among(table, partial=partial)
        self._best_kind = AGENT if normalise == BEST else normalise
        if not any(entry.kind == self._best_kind for entry in table.entries) and normalise not in {BEST, KNOWN}:
            raise UsageError(
                f"Invalid normalisation {normalise!r}: the table has no entry of this kind. Use --normalise best or "
                "known, or add a shipped table with such entries."
            )
        self._replicates = {
            (entry.label, name): resampler.means(cell.sample)
            if cell.sample
            else np.full(resampler.replicates, cell.mean)
            for entry in table.entries
            for name, cell in entry.cells.items()
        }
        self._success_tasks = _tasks_with_success(entry for entry in table.entries if entry is not table.anchor)
        self._ranks: dict[tuple[str, str], Floats] = {}
        """Rank scores by entry and task, over replicates."""
        self._norms: dict[tuple[str, str], Floats] = {}

    def leaderboard(self) -> Leaderboard:
        entries = self._table.entries
        scores = {entry.label: {name: self._task_score(entry, name) for name in entry.cells} for entry in entries}
        complete = {entry.label: len(entry.cells) == len(self._table.tasks) for entry in entries}
        unplaced = [self._standing(entry, scores[entry.label], complete[entry.label]) for entry in entries]
        ordered = sorted(
            unplaced, key=lambda standing: (not standing.has_score, not standing.complete, -standing.rank_score.value)
        )
        standings = tuple(self._compare_to_noise(list(self._assign_tiers(ordered))))
        notes = (*self._table.notes, *self._notes(complete), *self._tier_notes(standings), *noise_notes(standings))
        of_prices = price_notes((standing.entry.label, standing.entry.runs) for standing in standings)
        return Leaderboard(self._table.tasks, standings, (*notes, *of_prices))

    def _compare_to_noise(self, standings: Sequence[Standing]) -> Iterable[Standing]:
        """Yield the standings, each with its distance to the best one beside the noise of runs."""
        best = _best_played(standings)
        for standing in standings:
            if best is None or standing is best or not standing.entry.runs:
                yield standing
                continue
            mine, theirs = standing.entry.cells, best.entry.cells
            parts = [
                (theirs[name].sample, mine[name].sample, scale.best - scale.low)
                for name in mine.keys() & theirs.keys()
                if (scale := scale_on(self._table, name, self._counts, self._best_kind))
            ]
            yield replace(standing, behind_best=compare_to_noise(parts))

    def _notes(self, complete: Mapping[str, bool]) -> Iterable[str]:
        if not any(complete[entry.label] for entry in self._table.entries if entry is not self._table.anchor):
            yield "No entry has all tasks: all are ranked together, each on what it has."
        elif not all(complete.values()):
            how = "ranked with the others" if self._partial else "ranked against the complete ones, and without a place"
            yield f"Entries that lack tasks have means over what they have (coverage); they are {how}."
        if bare := self._without_scale():
            why = f"No {self._best_kind} is above uniform random by more than noise"
            why = "No best known score" if self._best_kind == KNOWN else why
            yield f"{why} on {', '.join(bare)}: no normalised score there."
        if self._best_kind == KNOWN:
            yield "Normalised scores: 0 is the better one of random and idle play, 1 the best known score; not clipped."
        repeats = {len(cell.runs) for entry in self._table.entries for cell in entry.cells.values() if cell.runs}
        if repeats and min(repeats) == 1:
            yield ONE_REPEAT
            yield "Entries that lack a second repeat on any of their tasks have no tier."
        samples = [cell.sample for entry in self._table.entries for cell in entry.cells.values() if cell.sample]
        if not all(sample.is_estimable for sample in samples):
            yield ONE_CASE
        if any(not entry.runs and entry is not self._table.anchor for entry in self._table.entries):
            yield "Entries that were published as means alone have no interval, and no tier."

    def _without_scale(self) -> list[str]:
        """Return the tasks with uniform random that some entry could be the best of, and none is above it."""
        if self._best_kind == KNOWN:
            return [task.name for task in self._table.tasks if task.known is None]
        anchor = self._table.anchor
        possible = {name for entry in self._table.entries if entry.kind == self._best_kind for name in entry.cells}
        names = [task.name for task in self._table.tasks if anchor and task.name in possible & anchor.cells.keys()]
        return [name for name in names if not scale_on(self._table, name, self._counts, self._best_kind)]

    def _rivals(self, entry: Entry, task: str) -> list[Entry]:
        """Return the entries that an entry is ranked among on a task, itself first."""
        others = [
            rival
            for rival in self._table.entries
            if rival is not entry and self._counts[rival.label] and task in rival.cells
        ]
        return [entry, *others]

    def _task_score(self, entry: Entry, task: str) -> TaskScore:
        rivals = self._rivals(entry, task)
        if not entry.cells[task].has_score:
            return self._no_score(entry, task, len(rivals))
        means = {entry.label: entry.cells[task].mean for entry in rivals}
        replicates = np.array([_worth(self._replicates[entry.label, task]) for entry in rivals])
        ahead = (replicates > replicates[0]).sum(axis=0)
        count = len(rivals)
        over = np.ones(replicates.shape[1]) if count == 1 else (count - 1 - ahead) / (count - 1)
        self._ranks[entry.label, task] = over
        freedom = _freedom(rivals, task)
        score = rank_scores(means)[entry.label]
        value = Score(score, bootstrap_interval(score, over, freedom, UNIT) if _is_spread(entry, task) else None)
        return TaskScore(
            entry.cells[task], rank(means, entry.label), count, self._counts[entry.label], value,
            self._normalised(entry, task),
        )  # fmt: skip

    def _no_score(self, entry: Entry, task: str, count: int) -> TaskScore:
        """Return the score of an entry without a score: no rank, and 0 as rank score and normalised score."""
        nothing = np.zeros(len(self._replicates[entry.label, task]))
        self._ranks[entry.label, task] = self._norms[entry.label, task] = nothing
        scale = scale_on(self._table, task, self._counts, self._best_kind)
        none = Score(0.0, None)
        return TaskScore(
            entry.cells[task], None, count, self._counts[entry.label], none, none if scale is not None else None
        )

    def _normalised(self, entry: Entry, task: str) -> Score | None:
        scale = scale_on(self._table, task, self._counts, self._best_kind)
        if scale is None:
            return None
        value = scale.value(entry.cells[task].mean)
        own = _worth(self._replicates[entry.label, task])
        if scale.is_clipped:
            top = np.max([_worth(self._replicates[entry.label, task]) for entry in scale.of], axis=0)
            with np.errstate(invalid="ignore", divide="ignore"):
                over = np.where(top > scale.low, np.clip((own - scale.low) / (top - scale.low), 0, 1), 0.0)
        else:
            over = (own - scale.low) / (scale.best - scale.low)
        self._norms[entry.label, task] = np.nan_to_num(over)
        rivals = [entry, *(rival for rival in scale.of if rival is not entry)]
        bounds = UNIT if scale.is_clipped else None
        interval = bootstrap_interval(value, self._norms[entry.label, task], _freedom(rivals, task), bounds)
        return Score(value, interval if _is_spread(entry, task) else None)

    def _standing(self, entry: Entry, scores: Mapping[str, TaskScore], complete: bool) -> Standing:  # noqa: FBT001
        rows = [task for task in self._table.tasks if task.name in scores]
        families: dict[str, Score] = {}
        for family in dict.fromkeys(task.family for task in rows):
            families[family] = self._rank_mean(entry, scores, [task.name for task in rows if task.family == family])
        kinds: dict[str, Score] = {}
        for kind in (TaskKind.TUNING, TaskKind.SYNTHESIS):
            of_kind = self._norm_mean(entry, scores, [task.name for task in rows if task.kind is kind])
            if of_kind:
                kinds[kind.value] = of_kind
        names = [task.name for task in rows]
        return Standing(
            entry, scores, complete, None, None, None,
            rank_score=self._rank_mean(entry, scores, names),
            normalised=self._norm_mean(entry, scores, names),
            families=families,
            kinds=kinds,
            wins=sum(score.rank == 1 and self._is_above_random(name, score) for name, score in scores.items()),
            top_2=sum(score.rank in {1, 2} for score in scores.values()),
            success_tasks=self._success_tasks,
        )  # fmt: skip

    def _is_above_random(self, task: str, score: TaskScore) -> bool:
        """Return whether a score is above uniform random's; where all score as that does, nobody has won."""
        anchor = self._table.anchor
        return anchor is None or task not in anchor.cells or score.cell.mean > anchor.cells[task].mean

    def _rank_mean(self, entry: Entry, scores: Mapping[str, TaskScore], names: Sequence[str]) -> Score:
        value = fmean(scores[name].rank_score.value for name in names)
        return Score(value, self._interval(entry, value, names, self._ranks, UNIT))

    def _norm_mean(self, entry: Entry, scores: Mapping[str, TaskScore], names: Sequence[str]) -> Score | None:
        known = {name: score for name in names if (score := scores[name].normalised) is not None}
        if not known:
            return None
        value = fmean(score.value for score in known.values())
        bounds = None if self._best_kind == KNOWN else UNIT
        return Score(value, self._interval(entry, value, list(known), self._norms, bounds))

    def _interval(
        self,
        entry: Entry,
        value: float,
        names: Sequence[str],
        replicates: Mapping[tuple[str, str], Floats],
        bounds: tuple[float, float] | None,
    ) -> Interval | None:
        if not _has_interval(entry):
            return None
        each = [replicates[entry.label, name] for name in names]
        freedoms = [_freedom(self._rivals(entry, name), name) for name in names]
        freedom = joint_freedom([float(replicates.var()) for replicates in each], freedoms)
        return bootstrap_interval(value, np.mean(each, axis=0), freedom, bounds)

    def _assign_tiers(self, ordered: Sequence[Standing]) -> Iterable[Standing]:
        """Yield the standings with place and tier: entries that can't be distinguished from its best are in a tier.

        The first entry that is significantly worse than a tier's first opens the next tier: by the p-values over all
        tasks that ``compare`` has for each pair of entries, adjusted by Holm over all pairs.
        """
        tier, best = 0, None
        placed = [standing for standing in ordered if standing.complete and standing.has_score]
        if all(standing.entry is self._table.anchor for standing in placed):  # nobody is first by being alone
            yield from (standing for standing in ordered if standing not in placed)
            yield from placed
            return
        p_values = self._p_values([standing.entry for standing in placed if _has_tier(standing.entry)])
        for standing in ordered:
            better = sum(other.rank_score.value > standing.rank_score.value for other in placed)
            rank = 1 + better if standing.complete and standing.has_score else None
            own, p = None, None
            if rank is not None and _has_tier(standing.entry):
                p = p_values[best.entry.label, standing.entry.label] if best else None
                if best is None or (p is not None and p < LEVEL):
                    tier, best = tier + 1, standing
                own = tier
            yield replace(standing, rank=rank, tier=own, behind_p=p)

    def _p_values(self, entries: Sequence[Entry]) -> dict[tuple[str, str], float | None]:
        """Return the adjusted p-value of each pair, from the better entry to the worse; 1 against the order of ranks.

        None if it is unknown on all tasks.
        """
        pairs = list(combinations(entries, 2))
        decisions = [self._decide(better, worse) for better, worse in pairs]
        adjusted = holm([decision.p for decision in decisions])
        return {
            (better.label, worse.label): 1.0 if p is not None and decision.evidence < 0 else p
            for (better, worse), decision, p in zip(pairs, decisions, adjusted, strict=True)
        }

    def _decide(self, first: Entry, other: Entry) -> JointDecision:
        samples = [(first.cells[task.name].sample, other.cells[task.name].sample) for task in self._table.tasks]
        return decide_jointly([decide_samples(own, theirs) if own and theirs else UNDECIDED for own, theirs in samples])

    def _tier_notes(self, standings: Sequence[Standing]) -> Iterable[str]:
        """Yield a note if no result of these repeats could have given two tiers."""
        entries = [standing.entry for standing in standings if standing.tier is not None]
        pairs = list(combinations(entries, 2))
        least = [
            least_joint_p([(len(first.cells[name].runs), len(other.cells[name].runs)) for name in first.cells])
            for first, other in pairs
        ]
        if pairs and len(pairs) * min(least) >= LEVEL:
            yield (
                f"One tier: with so few repeats no result tells {len(entries)} entries apart at {LEVEL:g}, over "
                f"{len(pairs)} pairs (the smallest p-value is {min(least):.2g} each). Play more repeats."
            )


def noise_notes(standings: Sequence[Standing]) -> Iterable[str]:
    """Yield a note on the entries that the best one is not ahead of by more than two runs of one agent differ."""
    compared = [(standing, gap) for standing in standings if (gap := standing.behind_best)]
    best = _best_played(standings)
    if best is None or not compared:
        return
    within = [standing.entry.shown for standing, gap in compared if not gap.is_beyond]
    lowest, highest = (end(gap.floor for _, gap in compared) for end in (min, max))
    floors = f"{lowest:.3f}" if f"{lowest:.3f}" == f"{highest:.3f}" else f"{lowest:.3f} to {highest:.3f}"
    yield (
        f"Noise floor: mean normalised scores of equal agents with so many runs differ by up to {floors} (95 %). "
        f"Not further than that from {best.entry.shown}: {', '.join(within) or 'none'}."
    )


def _best_played(standings: Sequence[Standing]) -> Standing | None:
    """Return the first entry that has runs and a score."""
    return next((standing for standing in standings if standing.has_score and standing.entry.runs), None)


def _has_tier(entry: Entry) -> bool:
    """Whether it has two repeats on each task, whose uncertainty is known."""
    return entry.is_repeated and _has_interval(entry)


def _tasks_with_success(entries: Iterable[Entry]) -> frozenset[str]:
    """Return the tasks of which some entry's success rate is known."""
    cells = [(name, cell) for entry in entries for name, cell in entry.cells.items()]
    return frozenset(name for name, cell in cells if cell.success_rate is not None)


def _has_interval(entry: Entry) -> bool:
    """Whether the uncertainty of its scores is known: of each but those whose returns are all equal."""
    scored = [cell.sample for cell in entry.cells.values() if cell.has_score]
    known = [sample for sample in scored if sample is not None and sample.is_estimable]
    return len(known) == len(scored) and any(sample.has_spread for sample in known)


def _is_spread(entry: Entry, task: str) -> bool:
    """Whether the returns of an entry on a task differ, so that something is known of its score's uncertainty."""
    sample = entry.cells[task].sample
    return _has_interval(entry) and sample is not None and sample.has_spread


def _freedom(entries: Iterable[Entry], task: str) -> float:
    """Return the degrees of freedom behind a comparison: the harmonic mean of those of its uncertain entries."""
    samples = [sample for entry in entries if (sample := entry.cells[task].sample) is not None]
    finite = [freedom for sample in samples if math.isfinite(freedom := sample.freedom)]
    return len(finite) / sum(1 / freedom for freedom in finite) if finite else math.inf


def _worth(means: Floats) -> Floats:
    """Return means with what is not a number as worse than any."""
    return np.where(np.isnan(means), -np.inf, means)
