"""How well a suite still distinguishes agents, task by task and as a whole.

``docs/measure/headroom.md`` has the formulas and the error rates.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from evopolicygym.analysis.headroom.spread import (
    FEWEST,
    EntryMeans,
    EntrySpread,
    HeadroomVerdict,
    entry_means,
    mean_over_tasks,
    verdict_of,
    verdict_of_suite,
)
from evopolicygym.analysis.published.score_tables import AGENT, ANCHOR, OtherFigures
from evopolicygym.analysis.ranking.bootstrap import Sample, t_quantile
from evopolicygym.analysis.ranking.decision import holm
from evopolicygym.analysis.ranking.known_scale import exceeds
from evopolicygym.analysis.ranking.score_table import Cell, Entry, ScoreTable, TaskRow
from evopolicygym.core.score import estimate
from evopolicygym.specs.identity import EnvironmentIdentity

RUN, PUBLISHED, ELSEWHERE = "run", "published", "published elsewhere"


@dataclass(frozen=True, slots=True)
class KnownScore:
    """A mean held-out return, and whose it is."""

    score: float
    holder: str
    kind: str
    """``run``, ``published``, ``published elsewhere``, or what a shipped table calls it, such as ``reference``."""
    standard_error: float | None = None
    """None if a mean alone was published."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether it was made under another protocol, so that nothing is normalised by it."""
        return self.kind == ELSEWHERE


def is_agents(entry: Entry, cell: Cell) -> bool:
    """Whether a score is that of an agent that could improve its policy, and not of a ready-made policy.

    References and trained policies run with a budget of one episode, which gives no feedback to learn from.
    """
    return all(run.budget > 1 for run in cell.runs) if cell.runs else entry.kind == AGENT


def best_here(task: str, table: ScoreTable, others: Iterable[ScoreTable] = ()) -> KnownScore | None:
    """Return the best score under our protocol, of a table and of runs of the same environment in other tables.

    A repeated entry counts with its mean: the best of many runs is also the luckiest.
    """
    return _best(_known_scores(task, table, others, agents=False))


def best_agent(task: str, table: ScoreTable, others: Iterable[ScoreTable] = ()) -> KnownScore | None:
    """Return the best score of an agent under our protocol."""
    return _best(_known_scores(task, table, others, agents=True))


def best_elsewhere(gymnasium_id: str, figures: Sequence[OtherFigures]) -> KnownScore | None:
    """Return the best figure that was published of an environment under another protocol."""
    bests = [task.best for published in figures if (task := published.of_id(gymnasium_id))]
    return _best(KnownScore(figure.score, figure.label, ELSEWHERE) for figure in bests)


def gymnasium_id(task: str, table: ScoreTable, ids: Mapping[str, str]) -> str:
    """Return the gymnasium id of a task; empty if it is not known."""
    environment = _environment(task, table)
    return environment.id if environment else ids.get(task, "")


def _known_scores(task: str, table: ScoreTable, others: Iterable[ScoreTable], *, agents: bool) -> Iterator[KnownScore]:
    environment = _environment(task, table)
    for source in (table, *others):
        for entry in source.entries:
            cell = entry.cells.get(task)
            if cell is None or not math.isfinite(cell.mean) or (agents and not is_agents(entry, cell)):
                continue
            if source is table or (
                cell.runs and (environment is None or cell.runs[0].environment.is_same(environment))
            ):
                yield KnownScore(cell.mean, entry.shown, _kind(entry), cell.standard_error)


def _kind(entry: Entry) -> str:
    if entry.kind != AGENT:
        return entry.kind
    return PUBLISHED if entry.is_shipped else RUN


def _environment(task: str, table: ScoreTable) -> EnvironmentIdentity | None:
    runs = (run for entry in table.entries if task in entry.cells for run in entry.cells[task].runs)
    return next((run.environment for run in runs), None)


def _best(known: Iterable[KnownScore]) -> KnownScore | None:
    return max(known, key=lambda score: score.score, default=None)


NORMAL = t_quantile(math.inf)
DISTINGUISHES, NEARLY_SPENT, SPENT = HeadroomVerdict.DISTINGUISHES, HeadroomVerdict.NEARLY_SPENT, HeadroomVerdict.SPENT
NEAR = 0.05
"""The share of the scale below which a task counts as nearly reached."""


@dataclass(frozen=True, slots=True)
class TaskHeadroom:
    """The headroom of a task."""

    task: TaskRow
    random: float | None
    """Uniform random's mean."""
    best: KnownScore | None
    """The best score of any kind, figures of another protocol included."""
    scale: float | None
    """From uniform random to the best under our protocol; None if that is not above it beyond noise, or unknown."""
    agent: KnownScore | None
    """The best agent under our protocol."""
    left: float | None
    """The distance of the best agent to the best known score, as a share of the scale."""
    entries: tuple[str, ...]
    """The agents with runs, which are compared."""
    runs: int
    """The number of runs of these agents."""
    at_best: float | None
    """The share of those runs that are at the best known score, as far as their cases say; None if it is random."""
    spread: EntrySpread | None
    """None below two entries."""
    p: float | None = None
    """The p-value of the spread, adjusted by Holm over all tasks and the whole."""
    verdict: HeadroomVerdict = HeadroomVerdict.TOO_FEW_ENTRIES


@dataclass(frozen=True, slots=True)
class Headroom:
    """The headroom of a table's tasks."""

    tasks: tuple[TaskHeadroom, ...]
    entries: tuple[str, ...]
    """The agents with runs on all tasks of ``spread``."""
    over: int
    """Tasks that ``spread`` is over."""
    spread: EntrySpread | None
    """The spread of mean scores over tasks; 0 is uniform random and 1 the best of each task; not clipped."""
    p: float | None
    verdict: HeadroomVerdict
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Other tables and figures for the best known scores of a table's tasks."""

    others: Sequence[ScoreTable] = ()
    """Tables of runs that are not comparable; the best known score may be theirs."""
    figures: Sequence[OtherFigures] = ()
    ids: Mapping[str, str] = field(default_factory=dict)
    """The gymnasium ids of tasks, for tasks without a run."""


def headroom(table: ScoreTable, surroundings: Surroundings | None = None) -> Headroom:
    """Return the headroom of a table's tasks."""
    around = surroundings or Surroundings()
    tasks = [_measure_task(task, table, around) for task in table.tasks]
    entries, over, spread = _whole(tasks, table)
    tested = [result for result in tasks if result.spread is not None and result.spread.entries >= FEWEST]
    *of_tasks, p = holm([*(result.spread.p for result in tested if result.spread), spread.p if spread else None])
    by_task = dict(zip((result.task.name for result in tested), of_tasks, strict=True))
    decided = tuple(_add_verdict(result, by_task.get(result.task.name)) for result in tasks)
    verdict = verdict_of_suite([result.verdict for result in decided], p if spread and spread.is_repeated else None)
    suite = Headroom(decided, entries, over, spread, p, verdict)
    return replace(suite, notes=(*_notes(suite, table), *table.notes))


def _add_verdict(result: TaskHeadroom, p: float | None) -> TaskHeadroom:
    return replace(result, p=p, verdict=verdict_of(result.spread, p, result.at_best, result.scale))


def _measure_task(task: TaskRow, table: ScoreTable, around: Surroundings) -> TaskHeadroom:
    name, anchor = task.name, table.anchor
    low = anchor.cells[name] if anchor and name in anchor.cells else None
    random = low.mean if low else None
    here, agent = best_here(name, table, around.others), best_agent(name, table, around.others)
    elsewhere = best_elsewhere(gymnasium_id(name, table, around.ids), around.figures)
    best = max(filter(None, (here, elsewhere)), key=lambda score: score.score, default=None)
    is_above = here and low and exceeds((here.score, here.standard_error), (low.mean, low.standard_error))
    scale = here.score - low.mean if here and low and is_above else None
    comparable = best is not None and agent is not None and scale is not None and not best.is_elsewhere
    left = (best.score - agent.score) / scale if comparable else None  # type: ignore[union-attr, operator] # said above
    samples = _samples(name, table)
    at_best = [is_at for sample in samples.values() for is_at in _at(best, sample)] if _is_reached(best) else []
    return TaskHeadroom(
        task, random, best, scale, agent, left, tuple(samples), sum(len(sample.runs) for sample in samples.values()),
        sum(at_best) / len(at_best) if at_best else None,
        entry_means(list(samples.values())).spread() if len(samples) > 1 else None,
    )  # fmt: skip


def _samples(task: str, table: ScoreTable) -> dict[str, Sample]:
    """Return the agents' samples on a task, by entry, without those of a single case or a non-finite mean."""
    return {
        entry.label: cell.sample
        for entry in table.entries
        if (cell := entry.cells.get(task)) and cell.sample and entry is not table.anchor and is_agents(entry, cell)
        if cell.sample.is_estimable and math.isfinite(cell.mean)
    }


def _is_reached(best: KnownScore | None) -> TypeGuard[KnownScore]:
    """Whether the best known score is above uniform random's."""
    return best is not None and best.kind != ANCHOR


def _at(best: KnownScore, sample: Sample) -> Iterator[bool]:
    """Yield for each run whether it is as good as the best known score, within the noise of its cases."""
    for block in sample.blocks:
        for row in block.returns:
            mean = estimate(row.tolist())
            yield mean.mean >= best.score - NORMAL * math.hypot(mean.standard_error or 0.0, best.standard_error or 0.0)


def _whole(tasks: Sequence[TaskHeadroom], table: ScoreTable) -> tuple[tuple[str, ...], int, EntrySpread | None]:
    """Return the entries that share the tasks with enough entries, the number of these tasks, and the spread."""
    over = [result for result in tasks if result.scale is not None and len(result.entries) >= FEWEST]
    shared = [name for name in over[0].entries if all(name in result.entries for result in over)] if over else []
    if len(shared) < FEWEST or len(over) < 2:  # noqa: PLR2004 - one task is no suite
        return tuple(shared), len(over), None
    each: list[tuple[EntryMeans, float]] = []
    for result in over:
        samples = _samples(result.task.name, table)
        each.append((entry_means([samples[name] for name in shared]), result.scale or 1.0))
    return tuple(shared), len(over), mean_over_tasks(each).spread()


def _notes(suite: Headroom, table: ScoreTable) -> Iterator[str]:
    yield sentence(suite)
    lefts = [result.left for result in suite.tasks if result.left is not None]
    if lefts:
        near = sum(left <= NEAR for left in lefts)
        yield (
            f"The best agent is at the best known score, or within {NEAR:.0%} of the way from uniform random to it, on "
            f"{near} of {len(lefts)} tasks."
        )
    single = [result for result in suite.tasks if result.spread is not None and not result.spread.is_repeated]
    if single:
        yield "Noise where every entry has one run is that of held-out cases only: another run may differ by more."
    if any(entry.kind == AGENT and not entry.runs and entry.is_shipped for entry in table.entries):
        yield "Agents that were published as means alone are not compared, as nothing is known of their noise."
    if any(result.best is not None and result.best.is_elsewhere for result in suite.tasks):
        yield "A best known score that was published elsewhere is of another protocol: no share is taken of it."


def sentence(suite: Headroom) -> str:
    """Return a sentence or two on the tasks together."""
    counts = Counter(result.verdict for result in suite.tasks)
    known = sum(count for verdict, count in counts.items() if verdict.is_known)
    does, nearly, spent = (counts[verdict] for verdict in (DISTINGUISHES, NEARLY_SPENT, SPENT))
    sentences = {
        DISTINGUISHES: f"These tasks distinguish agents: {does} of {known} with a verdict do.",
        NEARLY_SPENT: (
            f"These tasks hardly distinguish agents any more: {does} of {known} with a verdict do, {nearly} are nearly "
            f"spent, {spent} spent."
        ),
        SPENT: (
            f"These tasks no longer distinguish agents: none of {known} with a verdict does, and {spent} are spent."
        ),
        HeadroomVerdict.IN_PART: (
            f"These tasks distinguish agents in part: {does} of {known} with a verdict do, and on most others agents "
            "are below the best known score, or runs too noisy."
        ),
        HeadroomVerdict.TOO_HARD_OR_NOISY: (
            f"These tasks do not distinguish these agents: none of {known} with a verdict does, though most runs are "
            "below the best known score, or too noisy to say."
        ),
    }
    unknown = (
        "Whether these tasks distinguish agents is not known: that takes runs of three agents on a task, with two runs "
        "of one of them at least."
    )
    return f"{sentences.get(suite.verdict, unknown)}{_over_all(suite)}"


def _over_all(suite: Headroom) -> str:
    if suite.spread is None or suite.spread.ratio is None or suite.p is None:
        return ""
    return (
        f" Mean scores of {len(suite.entries)} agents over {suite.over} tasks differ by {suite.spread.ratio:.1f} times "
        f"their noise (p = {max(suite.p, 0.0001):.2g})."
    )
