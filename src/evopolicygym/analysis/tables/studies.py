"""The tables of effects, of headroom, of power and of expected use, for people and for programs."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from evopolicygym.analysis.effects.effects import Effects, LevelDifference
from evopolicygym.analysis.effects.estimate import MeanEstimate
from evopolicygym.analysis.expected_use import UseRange
from evopolicygym.analysis.headroom.headroom import Headroom, KnownScore, TaskHeadroom
from evopolicygym.analysis.headroom.spread import EntrySpread
from evopolicygym.analysis.ranking.power import MOST, Plan, TaskForecast, TaskVariances
from evopolicygym.analysis.tables.table import AT_LEAST, SMALLEST_SHOWN, Cell, Column, Number, Table
from evopolicygym.core.text import counted


def effects_tables(effects: Effects) -> list[Table]:
    """Return means of levels, differences between them, and the same for each of several environments."""
    tables = [_means_table(effects)] if effects.means else []
    tables += [_differences_table("Paired differences", effects.overall)] if effects.overall else []
    if effects.by_environment:
        tables.append(_differences_table("Paired differences, by environment", effects.by_environment))
    return [*tables[:-1], Table(tables[-1].title, tables[-1].columns, tables[-1].rows, effects.notes)]


def differences_table(effects: Effects) -> Table:
    """Return all differences in one table, as CSV has it."""
    return _differences_table("Paired differences", effects.differences)


def effects_document(effects: Effects, problems: Iterable[Mapping[str, str]] = ()) -> dict[str, Any]:
    """Return all effects for programs."""
    return {
        "in_returns": effects.in_returns,
        "knobs": {knob: list(levels) for knob, levels in effects.knobs.items()},
        "runs": {knob: {"in_pairs": paired, "of": count} for knob, (paired, count) in effects.paired.items()},
        "means": [
            {
                "knob": mean.knob, "level": mean.level, "environments": mean.environments, "runs": mean.runs,
                "mean" if effects.in_returns else "normalised": mean.mean.value,
                "interval": _ends(mean.mean), "interval_from": mean.mean.spread.value,
            }
            for mean in effects.means
        ],
        "differences": [
            {
                "knob": contrast.knob, "level": contrast.level, "over": contrast.over,
                "environment": contrast.environment or None,
                "environments": contrast.environments, "pairs": contrast.pairs,
                "difference": contrast.difference.value, "interval": _ends(contrast.difference),
                "interval_from": contrast.difference.spread.value,
                "p": contrast.difference.p, "p_holm": contrast.p_adjusted,
                "difference_of_returns": contrast.returns,
            }
            for contrast in effects.differences
        ],
        "scales": {name: {"random": scale.low, "best": scale.best} for name, scale in effects.scales.items()},
        "notes": list(effects.notes),
        "problems": list(problems),
    }  # fmt: skip


def level_text(level: object) -> str:
    """Return a level as tables show it; what is empty or without limit as none."""
    return "none" if level in (None, "") else str(level)


def _means_table(effects: Effects) -> Table:
    columns = (
        Column("knob", "knob", is_text=True), Column("level", "level", is_text=True),
        Column("environments", "environments"), Column("runs", "runs"),
        Column(*(("mean", "return [95 %]") if effects.in_returns else ("normalised", "normalised score [95 %]"))),
    )  # fmt: skip
    rows = tuple(
        (
            mean.knob,
            level_text(mean.level),
            mean.environments,
            mean.runs,
            _number(mean.mean),
        )
        for mean in effects.means
    )
    return Table("Means of levels", columns, rows)


def _differences_table(title: str, contrasts: Iterable[LevelDifference]) -> Table:
    columns = (
        Column("knob", "knob", is_text=True), Column("level", "level", is_text=True),
        Column("over", "over", is_text=True), Column("environment", "environment", is_text=True),
        Column("pairs", "pairs"), Column("difference", "difference [95 %]"),
        Column("interval_from", "from", is_text=True), Column("p", "p"), Column("p_holm", "p (Holm)"),
        Column("returns", "in returns"),
    )  # fmt: skip
    rows = tuple(
        (
            contrast.knob, level_text(contrast.level), level_text(contrast.over),
            contrast.environment or (f"all {contrast.environments}" if contrast.environments > 1 else None),
            contrast.pairs, _number(contrast.difference), contrast.difference.spread.value,
            _p(contrast.difference.p), _p(contrast.p_adjusted),
            None if contrast.returns is None else Number(contrast.returns, None),
        )
        for contrast in contrasts
    )  # fmt: skip
    kept = [at for at in range(len(columns)) if any(row[at] is not None for row in rows)]
    return Table(title, tuple(columns[at] for at in kept), tuple(tuple(row[at] for at in kept) for row in rows))


def _number(estimate: MeanEstimate) -> Cell:
    return Number(estimate.value, interval=estimate.interval)


def _p(value: float | None) -> Cell:
    return None if value is None else Number(max(value, SMALLEST_SHOWN), 4)


def _ends(estimate: MeanEstimate) -> list[float] | None:
    return None if estimate.interval is None else [estimate.interval.low, estimate.interval.high]


COLUMNS = (
    Column("task", "task", is_text=True),
    Column("random", "random"),
    Column("best", "best known ± s.e."),
    Column("holder", "held by", is_text=True),
    Column("kind", "kind", is_text=True),
    Column("agent", "best agent", is_text=True),
    Column("agent_score", "its score"),
    Column("left", "left"),
    Column("entries", "agents"),
    Column("runs", "runs"),
    Column("between", "spread"),
    Column("noise", "noise"),
    Column("ratio", "ratio"),
    Column("p_holm", "p (Holm)"),
    Column("at_best", "at best"),
    Column("verdict", "verdict", is_text=True),
)


def headroom_table(headroom: Headroom) -> Table:
    """Return a row for each task, without empty columns."""
    rows = [_row(row) for row in headroom.tasks]
    kept = [at for at in range(len(COLUMNS)) if any(row[at] is not None for row in rows)]
    shown = tuple(tuple(row[at] for at in kept) for row in rows)
    return Table("Headroom", tuple(COLUMNS[at] for at in kept), shown, headroom.notes)


def headroom_document(headroom: Headroom) -> dict[str, Any]:
    """Return the headroom for programs; spreads are in returns by task, and in shares of scales over tasks."""
    return {
        "tasks": [
            {
                "task": row.task.name,
                "family": row.task.family,
                "random": row.random,
                "best": _known(row.best),
                "scale": row.scale,
                "best_agent": _known(row.agent),
                "left": row.left,
                "agents": list(row.entries),
                "runs": row.runs,
                "at_best": row.at_best,
                "spread": _spread(row.spread),
                "p_holm": row.p,
                "verdict": row.verdict.value,
            }
            for row in headroom.tasks
        ],
        "suite": {
            "verdict": headroom.verdict.value,
            "agents": list(headroom.entries),
            "tasks": headroom.over,
            "spread": _spread(headroom.spread),
            "p_holm": headroom.p,
        },
        "notes": list(headroom.notes),
    }


def headrooms_document(headrooms: Mapping[str, Headroom], problems: Iterable[Mapping[str, str]] = ()) -> dict[str, Any]:
    """Return headrooms for programs: a single one directly; several under ``tables``, with their titles."""
    documents = [{"title": title, **headroom_document(headroom)} for title, headroom in headrooms.items()]
    if len(documents) == 1:
        del documents[0]["title"]
        return {**documents[0], "problems": list(problems)}
    return {"tables": documents, "problems": list(problems)}


def _row(row: TaskHeadroom) -> tuple[Cell, ...]:
    spread, best, agent = row.spread, row.best, row.agent
    return (
        row.task.name,
        None if row.random is None else Number(row.random, None),
        Number(best.score, None, best.standard_error) if best else None,
        best.holder if best else None,
        best.kind if best else None,
        agent.holder if agent else None,
        Number(agent.score, None) if agent else None,
        _percent(row.left),
        len(row.entries) or None,
        row.runs or None,
        _share(spread.between, row.scale) if spread else None,
        _share(spread.noise, row.scale) if spread else None,
        Number(spread.ratio, 1) if spread and spread.ratio is not None else None,
        None if row.p is None else Number(max(row.p, SMALLEST_SHOWN), 4),
        _percent(row.at_best),
        row.verdict.value,
    )


def _share(value: float, scale: float | None) -> Cell:
    return None if scale is None else _percent(value / scale)


def _percent(share: float | None) -> Cell:
    return None if share is None else Number(share, percent=True)


def _known(score: KnownScore | None) -> dict[str, Any] | None:
    if score is None:
        return None
    return {"score": score.score, "standard_error": score.standard_error, "holder": score.holder, "kind": score.kind}


def _spread(spread: EntrySpread | None) -> dict[str, Any] | None:
    if spread is None:
        return None
    return {
        "between": spread.between,
        "noise": spread.noise,
        "ratio": spread.ratio,
        "p": spread.p,
        "noise_covers": spread.covers,
    }


def use_table(
    title: str, rows: Iterable[tuple[str, UseRange | None, Callable[[float], str]]], notes: Sequence[str] = ()
) -> Table:
    """Return amounts that are expected with their ranges, a row each: its name, the range, how a value is shown."""
    columns = tuple(Column(key, key, is_text=True) for key in ("amount", "expected", "range", "from"))
    return Table(title, columns, tuple((name, *_use_cells(use, shown)) for name, use, shown in rows), tuple(notes))


def _use_cells(use: UseRange | None, shown: Callable[[float], str]) -> tuple[str, str, str]:
    if use is None:
        return "unknown", "", "nothing that was played tells it"
    least = AT_LEAST if use.is_lower_bound else ""
    ends = f"{shown(use.low)} to {shown(use.high)}" if use.low < use.high else ""
    source = f"{use.basis}: {counted(use.runs, 'run')}" if use.runs else use.basis
    return f"{least}{shown(use.expected)}", ends, source


def power_table(plan: Plan, forecast: Sequence[TaskForecast]) -> Table:
    """Return the repeats that find a difference, or their power, with what they take."""
    columns = (
        Column("task", "task", is_text=True), Column("difference", "difference"),
        Column("standard_deviation", "s.d. between runs"), Column("repeats", "repeats"),
        Column("range", "range", is_text=True), Column("power", "power"), Column("least", "finds"),
        Column("episodes", "episodes"), Column("hours", "hours"), Column("cost", "cost, USD"),
    )  # fmt: skip
    rows = [
        (
            row.task, _plain(row.difference), _plain(row.standard_deviation),
            f"more than {MOST}" if row.repeats is None and row.is_known else row.repeats,
            None if row.range is None else f"{row.range[0]} to {row.range[1] or f'more than {MOST}'}",
            None if row.power is None else Number(row.power, 2), _plain(row.least),
            None if row.episodes is None else round(row.episodes), _plain(row.hours, 1), _plain(row.cost, 2),
        )
        for row in forecast
    ]  # fmt: skip
    kept = [at for at in range(len(columns)) if any(row[at] is not None for row in rows)]
    shown = tuple(tuple(row[at] for at in kept) for row in rows)
    return Table("Power", tuple(columns[at] for at in kept), shown, tuple(_power_notes(plan, forecast)))


def _power_notes(plan: Plan, forecast: Sequence[TaskForecast]) -> Iterator[str]:
    asked = "the power" if plan.repeats else f"the repeats of each agent with a power of {plan.power:g}"
    yield (
        f"For two agents on the same {plan.cases} held-out cases: {asked}, at 0.05 over the number of tasks, as in the "
        "first step of Holm's procedure; all tasks together at 0.05. Episodes, hours and cost are of both agents."
    )
    if not plan.repeats:
        yield "Range: the repeats at both ends of the 80 % interval of the variances, which few runs say little about."
    if any(row.standard_deviation is None for row in forecast):
        yield "Where all repeats of each agent are equal, nothing is known of agents whose repeats differ."
    if any(row.difference is None for row in forecast):
        yield "Tasks without a best known score have no normalised difference: --in-returns has one."


def cases_table(forecast: Sequence[TaskForecast]) -> Table:
    """Return repeats by the number of held-out cases."""
    cases = list(next((row.by_cases for row in forecast if row.by_cases), {}))
    columns = [Column("task", "task", is_text=True), *(Column(f"cases_{count}", f"{count} cases") for count in cases)]
    rows = tuple(
        (row.task, *(row.by_cases[count] or f"more than {MOST}" for count in cases)) for row in forecast if row.by_cases
    )
    return Table("Repeats by held-out cases", tuple(columns), rows)


def power_document(plan: Plan, forecast: Sequence[TaskForecast], known: Sequence[TaskVariances]) -> dict[str, Any]:
    """Return the forecast for programs; numbers that are not known, or beyond 100 repeats, are null."""
    variances = {task.task: task for task in known}
    return {
        "difference": plan.difference,
        "in_returns": not plan.is_normalised,
        "power": plan.power,
        "held_out_cases": plan.cases,
        "repeats": plan.repeats,
        "tasks": [
            {
                "task": row.task,
                "is_known": row.is_known,
                "difference": row.difference,
                "repeats": row.repeats,
                "repeats_range": None if row.range is None else list(row.range),
                "power": row.power,
                "least_difference": row.least,
                "standard_deviation_between_runs": row.standard_deviation,
                "repeats_by_cases": {str(cases): repeats for cases, repeats in row.by_cases.items()},
                "episodes": row.episodes,
                "hours": row.hours,
                "cost": row.cost,
                "variances": _variances(variances.get(row.task)),
            }
            for row in forecast
        ],
        "notes": list(_power_notes(plan, forecast)),
    }


def _variances(task: TaskVariances | None) -> dict[str, Any] | None:
    if task is None:
        return None
    freedom = task.freedom if math.isfinite(task.freedom) else None
    needs = None if task.needs is None else asdict(task.needs)
    return {
        "between_runs": task.between, "run_on_case": task.rest, "difference_on_case": task.interaction,
        "degrees_of_freedom": freedom, "scale": task.scale, "of_a_run": needs,
    }  # fmt: skip


def _plain(value: float | None, digits: int | None = None) -> Cell:
    return None if value is None else Number(value, digits)
