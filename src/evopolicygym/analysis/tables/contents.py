"""The tables of a leaderboard and of a pairing, for people and for programs."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evopolicygym.analysis.money import Money, mean_cost
from evopolicygym.analysis.ranking.bootstrap import HELD_OUT, Interval
from evopolicygym.analysis.ranking.leaderboard import Leaderboard, Score, Standing, TaskScore, mean_reported
from evopolicygym.analysis.ranking.noise import NoiseComparison, NoiseFloor
from evopolicygym.analysis.ranking.pairing import Pairing, Verdict
from evopolicygym.analysis.ranking.run_groups import RunGroups
from evopolicygym.analysis.ranking.score_table import Optimism, RareFailures, TaskRow
from evopolicygym.analysis.results import count_states, states_text
from evopolicygym.analysis.tables.table import SMALLEST_SHOWN, Cell, Column, Ends, Number, Table
from evopolicygym.core.text import decimals
from evopolicygym.records.rows import RunRow

IN_BRACKETS = "In brackets: the rank of an entry that lacks tasks, against those that have all. It isn't ranked itself."
NO_SCORE = "no score"
BETTER = "better by p (Holm)"
EARLY = "ended early"
OPTIMISM = "Selection's optimism: validation mean less held-out mean of the selected checkpoint"
IDLE = "Idle action (not ranked)"
_TEXT = {
    "entry",
    "harness",
    "model",
    "effort",
    "task",
    "isolation",
    BETTER,
    "beyond noise floor",
    "runs in two groups",
    "records",
    EARLY,
    "fingerprint",
    "program",
    "cases",
    "it covers",
    "interval covers",
}
_BEST_OF_TASK = {"held_out", "rank_score", "normalised", "success_rate"}
_VERDICTS: Mapping[Verdict, str] = {"first": "A", "second": "B", "neither": "no"}


def standings_tables(board: Leaderboard) -> list[Table]:
    """Return the standings in tables that a person can read: ranks, the parts of the table, costs."""
    whole = standings_table(board)
    parts = {name for standing in board.standings for name in (*standing.families, *standing.kinds)}
    costs = {"agent_kind", "model", "effort", "tokens", "cost_usd", "hours", "isolation", "fingerprint", "program"}
    identifying = {"rank", "entry"}
    tables = [_select_columns(whole, whole.title, lambda key: key not in parts | costs)]
    for title, keys in (("Rank score by family, normalised score by kind", parts), ("Cost per run", costs)):
        table = _select_columns(whole, title, lambda key, keys=keys: key in keys | identifying)  # type: ignore[misc]
        if any(column.key in keys for column in table.columns):
            tables.append(table)
    return [*tables[:-1], replace(tables[-1], notes=whole.notes)]


def _select_columns(table: Table, title: str, wanted: Callable[[str], bool]) -> Table:
    kept = [at for at, column in enumerate(table.columns) if wanted(column.key)]
    rows = tuple(tuple(row[at] for at in kept) for row in table.rows)
    return Table(title, tuple(table.columns[at] for at in kept), rows)


def standings_table(board: Leaderboard) -> Table:
    """Return the standings in one table, without empty columns."""
    columns = [_column("rank", "#"), _column("tier"), _column("entry"), _column("coverage")]
    columns += [_column("repeats"), _column("repeats_most", "at most"), _column("unscored", NO_SCORE)]
    columns += [_column("ended_early", EARLY), _column("records")]
    columns += [_column("rank_score", "rank score"), _column("normalised")]
    families = list(dict.fromkeys(task.family for task in board.tasks))
    kinds = sorted({kind for standing in board.standings for kind in standing.kinds})
    columns += [_column(name) for name in (*families, *kinds)] if len(board.tasks) > 1 else []
    columns += [_column("wins"), _column("top_2", "top-2"), _column("success_rate", "success rate")]
    columns += [_column("agent_kind", "harness"), _column("model"), _column("effort")]
    columns += [_column("tokens"), _column("cost_usd", "cost, USD"), _column("hours", "time, h"), _column("isolation")]
    columns += [_column("fingerprint"), _column("program")]
    rows = [
        _line(board, standing, families if len(board.tasks) > 1 else [], kinds if len(board.tasks) > 1 else [])
        for standing in board.standings
    ]
    best = {"rank_score", "normalised", *families, *kinds, "wins", "top_2", "success_rate"}
    return _mark_best_columns(_drop_empty_columns("Leaderboard", columns, rows, board.notes), best)


def task_tables(board: Leaderboard) -> list[Table]:
    """Return a table for each task, the best first."""
    tables = []
    for task in board.tasks:
        standings = [standing for standing in board.standings if task.name in standing.tasks]
        standings.sort(key=lambda standing: _merit(standing.tasks[task.name]))
        rows = [_task_line(standing, task.name) for standing in standings]
        rows += [_idle_line(task)] if task.idle else []
        notes = () if all(standing.tasks[task.name].is_counted for standing in standings) else (IN_BRACKETS,)
        table = _drop_empty_columns(f"{task.name} ({task.family}, {task.kind.value})", _task_columns(), rows, notes)
        tables.append(_mark_best_columns(table, _BEST_OF_TASK))
    return tables


def _merit(score: TaskScore) -> tuple[float, float]:
    return (math.inf, 0.0) if score.rank is None else (score.rank, -score.cell.mean)


def task_scores_table(board: Leaderboard) -> Table:
    """Return all tasks' tables in long format, a row for each entry on each task, as CSV has them."""
    columns = [
        _column("task"), Column("family", "family", is_text=True), Column("kind", "kind", is_text=True),
        *_task_columns(), Column("counted", "counted in others' ranks", is_text=True),
    ]  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for task in board.tasks:
        of_task = (task.name, task.family, task.kind.value)
        standings = [standing for standing in board.standings if task.name in standing.tasks]
        for standing in sorted(standings, key=lambda standing: _merit(standing.tasks[task.name])):
            score = standing.tasks[task.name]
            line = _task_line(standing, task.name)
            rows.append((*of_task, score.rank, *line[1:], "yes" if score.is_counted else "no"))
        rows += [(*of_task, *_idle_line(task), None)] if task.idle else []
    return _drop_empty_columns("Tasks", columns, rows, board.notes)


def scores_table(board: Leaderboard) -> Table:
    """Return held-out means and success rates in long format, a row for each entry on each task, as CSV has them."""
    whole = task_scores_table(board)
    kept = {"task", "entry", "repeats", "unscored", "ended_early", "held_out", "success_rate"}
    table = _select_columns(whole, "Scores", lambda key: key in kept)
    ranked = [row for row in table.rows if IDLE not in row]
    return replace(table, rows=tuple(ranked), notes=board.notes)


def scores_tables(board: Leaderboard) -> list[Table]:
    """Return tasks by entries, the best entry first: held-out means, and success rates where any are known."""
    columns = tuple(_column(standing.entry.shown) for standing in board.standings)

    def by_task(title: str, line: Callable[[list[TaskScore | None]], list[Cell]]) -> Table:
        lines = {
            task.name: line([standing.tasks.get(task.name) for standing in board.standings]) for task in board.tasks
        }
        rows = [(task, *_mark_best(cells)) for task, cells in lines.items() if any(cell is not None for cell in cells)]
        return Table(title, (_column("task"), *columns), tuple(rows))

    def means(scores: list[TaskScore | None]) -> list[Cell]:
        return [_held_out(score) if score else None for score in scores]

    def rates(scores: list[TaskScore | None]) -> list[Cell]:
        return [_percent(score.cell.success_rate, score.cell.success_interval) if score else None for score in scores]

    tables = [by_task(HELD_OUT.capitalize(), means), by_task("Success rate", rates)]
    shown = [table for table in tables if table.rows] or tables[:1]
    return [*shown[:-1], replace(shown[-1], notes=board.notes)]


def optimism_table(board: Leaderboard) -> Table:
    """Return tasks by entries: selection's optimism in returns, with its interval over repeats and cases."""
    shown = [standing for standing in board.standings if standing.entry.runs]

    def cell(standing: Standing, task: TaskRow) -> Cell:
        optimism = standing.tasks[task.name].cell.selection_optimism if task.name in standing.tasks else None
        return None if optimism is None else Number(optimism.value, None, interval=optimism.interval)

    rows = tuple((task.name, *(cell(standing, task) for standing in shown)) for task in board.tasks)
    columns = (_column("task"), *(_column(standing.entry.shown) for standing in shown))
    return Table(OPTIMISM, columns, rows, board.notes)


def pairing_table(pair: Pairing) -> Table:
    """Return two entries task by task, first where they differ most."""
    columns = [
        _column("task"), _column("first", "A"), _column("second", "B"), _column("difference", "A - B"),
        _column("covers", "interval covers"), _column("normalised", "normalised"),
        _column("improvement", "P(A > B)"), _column("noise_floor", "noise floor"),
        _column("beyond_noise", "beyond noise floor"), _column("p_holm", "p (Holm)"),
        _column("cases"), _column("case_difference", "largest case difference"), _column("case", "on case"),
        _column("significant", BETTER),
    ]  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            task.task, Number(task.first, None), Number(task.second, None),
            Number(task.difference, None, interval=task.interval),
            task.covers, None if task.normalised is None else Number(task.normalised),
            Number(task.improvement, 2, interval=task.improvement_interval),
            *_beside_noise(task.noise),
            None if task.p_holm is None else Number(max(task.p_holm, SMALLEST_SHOWN), 4),
            "paired" if task.paired else "not paired", Number(task.most.difference, None) if task.most else None,
            task.most.case if task.most else None,
            None if task.verdict is None else _VERDICTS[task.verdict],
        )
        for task in pair.tasks
    ]  # fmt: skip
    return _drop_empty_columns(f"A: {pair.first.shown}; B: {pair.second.shown}", columns, rows, pair.notes)


def overall_table(pair: Pairing) -> Table:
    """Return the table of a pairing over all tasks."""
    rows: list[tuple[Cell, ...]] = [
        ("probability that A improves on B", _cell(pair.improvement), "runs" if pair.improvement.interval else None),
        ("mean normalised difference", _cell(pair.normalised), pair.covers),
    ]
    if pair.noise:
        floor, beyond = _beside_noise(pair.noise)
        rows += [("its noise floor", floor, None), ("beyond noise floor", beyond, None)]
    if pair.joint.p is not None:
        rows.append(("p over all tasks", Number(max(pair.joint.p, SMALLEST_SHOWN), 4), None))
    if pair.verdict:
        rows.append(("better over all tasks", _VERDICTS[pair.verdict], None))
    if pair.better_on:
        rows += [
            (f"tasks on which {name} is better", count, None) for name, count in zip("AB", pair.better_on, strict=True)
        ]
    columns = [
        Column("measure", "over all tasks", is_text=True),
        _column("value"),
        _column("covers", "interval covers"),
    ]
    return _drop_empty_columns("Over all tasks", columns, rows, ())


def leaderboard_document(board: Leaderboard, problems: Iterable[Mapping[str, str]] = ()) -> dict[str, Any]:
    """Return the whole leaderboard for programs."""
    return {
        "tasks": [
            {
                "name": task.name,
                "family": task.family,
                "kind": task.kind.value,
                "noise": None if task.noise is None else noise_document(task.noise),
            }
            for task in board.tasks
        ],
        "entries": [_standing(board, standing) for standing in board.standings],
        "notes": list(board.notes),
        "problems": list(problems),
    }


def pairing_document(pair: Pairing) -> dict[str, Any]:
    """Return a pairing for programs."""
    better = pair.better_on
    return {
        "first": pair.first.label,
        "second": pair.second.label,
        "probability_of_improvement": _score(pair.improvement),
        "normalised_difference": _score(pair.normalised),
        "normalised_interval_covers": pair.covers,
        "p": pair.joint.p,
        "verdict": pair.verdict,
        **_noise_document(pair.noise),
        "tasks_first_better": better[0] if better else None,
        "tasks_second_better": better[1] if better else None,
        "tasks": [
            {
                "task": task.task,
                "first": task.first,
                "second": task.second,
                "difference": task.difference,
                "interval": _ends(task.interval),
                "interval_covers": task.covers,
                "repeats": list(task.repeats),
                "verdict": task.verdict,
                "paired": task.paired,
                "probability_of_improvement": task.improvement,
                "improvement_interval": _ends(task.improvement_interval),
                "p": task.p,
                "p_holm": task.p_holm,
                "normalised_difference": task.normalised,
                **_noise_document(task.noise),
                "most": {"case": task.most.case, "difference": task.most.difference} if task.most else None,
            }
            for task in pair.tasks
        ],
        "notes": list(pair.notes),
    }


def _optimism(optimism: Optimism | None) -> dict[str, Any] | None:
    if optimism is None:
        return None
    return {"value": optimism.value, "standard_error": optimism.standard_error, "interval": _ends(optimism.interval)}


def _rare_failures(failures: RareFailures | None) -> dict[str, float] | None:
    return None if failures is None else {"chance": failures.chance, "low": failures.low}


def _groups(run_groups: RunGroups | None) -> Cell:
    if run_groups is None:
        return None
    digits = decimals(run_groups.high, (run_groups.high - run_groups.low) / 10)
    low, high = (f"{runs} at {mean:,.{digits}f}" for runs, mean in _group_means(run_groups))
    return f"{low}, {high}"


def _group_means(run_groups: RunGroups) -> tuple[tuple[int, float], tuple[int, float]]:
    return (run_groups.low_runs, run_groups.low), (run_groups.high_runs, run_groups.high)


def _groups_document(run_groups: RunGroups | None) -> dict[str, Any] | None:
    if run_groups is None:
        return None
    groups = [{"runs": runs, "mean": mean} for runs, mean in _group_means(run_groups)]
    return {"groups": groups, "repeats_needed": run_groups.repeats_needed}


def noise_document(noise: NoiseFloor) -> dict[str, Any]:
    """Return the noise of a task for programs, in returns."""
    return {
        "single_runs": noise.single_runs,
        "standard_deviation": noise.standard_deviation,
        "degrees_of_freedom": noise.pooled.freedom if math.isfinite(noise.pooled.freedom) else None,
        "intraclass_correlation": noise.intraclass_correlation,
        "runs": noise.pooled.runs,
        "agents": noise.pooled.agents,
    }


def _noise_document(noise: NoiseComparison | None) -> dict[str, Any]:
    return {"noise_floor": noise.floor if noise else None, "beyond_noise": noise.is_beyond if noise else None}


def _beside_noise(noise: NoiseComparison | None) -> tuple[Cell, Cell]:
    return (Number(noise.floor, None), "yes" if noise.is_beyond else "no") if noise else (None, None)


def leaderboards_document(
    boards: Mapping[str, Leaderboard], problems: Iterable[Mapping[str, str]] = ()
) -> dict[str, Any]:
    """Return leaderboards for programs: a single one directly; several under ``tables``, with their titles."""
    if len(boards) == 1:
        return leaderboard_document(next(iter(boards.values())), problems)
    tables = [{"title": title, **leaderboard_document(board)} for title, board in boards.items()]
    for table in tables:
        del table["problems"]  # they are of all runs
    return {"tables": tables, "problems": list(problems)}


def add_title(title: str, tables: Iterable[Table]) -> list[Table]:
    """Return tables with the title of their group in their own titles, if it has one."""
    return [replace(table, title=f"{table.title} ({title})" if title else table.title) for table in tables]


def _standing(board: Leaderboard, standing: Standing) -> dict[str, Any]:
    return {
        "entry": standing.entry.label,
        "kind": standing.entry.kind,
        "agent_kind": standing.entry.harness,
        "model": standing.entry.model,
        "effort": standing.entry.effort,
        "intervals_cover": standing.covers,
        "source": standing.entry.source or None,
        "ours": standing.entry.is_ours,
        "rank": standing.rank,
        "tier": standing.tier,
        "behind_p": standing.behind_p,
        "coverage": {"tasks": len(standing.tasks), "of": len(board.tasks)},
        "has_score": standing.has_score,
        "rank_score": _score(_if_scored(standing, standing.rank_score)),
        "normalised": _score(_if_scored(standing, standing.normalised)),
        "families": {name: _score(_if_scored(standing, score)) for name, score in standing.families.items()},
        "kinds": {name: _score(_if_scored(standing, score)) for name, score in standing.kinds.items()},
        "behind_best": standing.behind_best.difference if standing.behind_best else None,
        **_noise_document(standing.behind_best),
        "wins": standing.wins,
        "top_2": standing.top_2,
        "success_rate": standing.success_rate,
        "success_interval": _ends(standing.success_interval),
        "tokens": standing.tokens,
        "cost_usd": standing.cost.value if standing.cost else None,
        "cost_is_lower_bound": bool(standing.cost and standing.cost.is_lower_bound),
        "wall_seconds": standing.wall_s,
        "isolation": _isolation(standing.entry.runs),
        "ended_early": dict(standing.early),
        "findings": None,
        "records": dict(count_states(standing.entry.runs)),
        "tasks": {
            name: {
                "mean": score.cell.mean if score.cell.has_score else None,
                "standard_error": score.cell.standard_error,
                "interval": _ends(score.cell.interval),
                "interval_covers": score.cell.covers,
                "selection_optimism": _optimism(score.cell.selection_optimism),
                "groups": _groups_document(score.cell.groups),
                "rare_failures": _rare_failures(score.cell.rare_failures),
                "repeats": len(score.cell.runs),
                "unscored": score.cell.unscored,
                "ended_early": dict(score.cell.early),
                "rank": score.rank,
                "of": score.of,
                "counted": score.is_counted,
                "rank_score": _score(score.rank_score if score.cell.has_score else None),
                "normalised": _score(score.normalised if score.cell.has_score else None),
                "success_rate": score.cell.success_rate,
                "success_interval": _ends(score.cell.success_interval),
                "runs": [str(run.root) for run in score.cell.runs],
                "commitments": sorted({run.commitment for run in score.cell.runs}),
                "fingerprints": sorted({run.fingerprint for run in score.cell.runs}),
                "programs": sorted({sha256 for run in score.cell.runs for sha256 in run.programs}),
            }
            for name, score in standing.tasks.items()
        },
    }


def _line(board: Leaderboard, standing: Standing, families: list[str], kinds: list[str]) -> tuple[Cell, ...]:
    missing = len(standing.tasks) < len(board.tasks)
    repeats = sorted({len(score.cell.runs) for score in standing.tasks.values() if score.cell.runs})
    return (
        standing.rank,
        standing.tier,
        standing.entry.shown,
        f"{len(standing.tasks)} of {len(board.tasks)}" if missing else None,
        repeats[0] if repeats else None,
        repeats[-1] if len(repeats) > 1 else None,
        sum(score.cell.unscored for score in standing.tasks.values()) or None,
        _early(standing.early),
        states_text(standing.entry.runs) or None,
        _cell(_if_scored(standing, standing.rank_score)),
        _cell(_if_scored(standing, standing.normalised)),
        *(_mean(_if_scored(standing, standing.families.get(name))) for name in families),
        *(_mean(_if_scored(standing, standing.kinds.get(name))) for name in kinds),
        standing.wins if standing.has_score else None,
        standing.top_2 if standing.has_score else None,
        _percent(standing.success_rate, standing.success_interval),
        standing.entry.harness,
        standing.entry.model,
        standing.entry.effort,
        None if standing.tokens is None else round(standing.tokens),
        _money(standing.cost),
        None if standing.wall_s is None else Number(standing.wall_s / 3600, 1),
        ", ".join(_isolation(standing.entry.runs)) or None,
        _fingerprint(run.fingerprint for run in standing.entry.runs),
        _fingerprint(sha256 for run in standing.entry.runs for sha256 in run.programs),
    )


def _task_line(standing: Standing, task: str) -> tuple[Cell, ...]:
    score = standing.tasks[task]
    cell, runs = score.cell, score.cell.runs
    interval, digits = cell.interval, decimals(cell.mean, cell.standard_error)
    tokens = mean_reported([run.tokens for run in runs])
    rank = score.rank if score.is_counted or score.rank is None else f"({score.rank})"
    return (
        rank, standing.entry.shown, len(runs) or None, cell.unscored or None, _early(cell.early), _held_out(score),
        Ends(interval.low, interval.high, digits) if interval else None, cell.covers, _groups(cell.groups),
        *(_mean(worth if cell.has_score else None) for worth in (score.rank_score, score.normalised)),
        _percent(cell.success_rate, cell.success_interval),
        None if tokens is None else round(tokens), _money(mean_cost(runs)),
        ", ".join(_isolation(runs)) or None, states_text(runs) or None,
    )  # fmt: skip


def _task_columns() -> list[Column]:
    return [
        _column("rank", "#"), _column("entry"), _column("repeats"), _column("unscored", NO_SCORE),
        _column("ended_early", EARLY), _column("held_out", HELD_OUT), _column("interval", "95 % interval"),
        _column("covers", "it covers"),
        _column("groups", "runs in two groups"),
        _column("rank_score", "rank score"), _column("normalised"), _column("success_rate", "success rate"),
        _column("tokens"), _column("cost_usd", "cost, USD"), _column("isolation"), _column("records"),
    ]  # fmt: skip


def _idle_line(task: TaskRow) -> tuple[Cell, ...]:
    idle = Number(task.idle.mean, None, task.idle.standard_error) if task.idle else None
    return (None, IDLE, None, None, None, idle, *(None,) * 10)


def _early(counts: Mapping[str, int]) -> Cell:
    """Return how many runs ended with episodes unspent, and by what; None without any."""
    return ", ".join(f"{count} by {why}" for why, count in counts.items()) or None


def _money(money: Money | None) -> Cell:
    return None if money is None else Number(money.value, 2, is_lower_bound=money.is_lower_bound)


def _held_out(score: TaskScore) -> Cell:
    return Number(score.cell.mean, None, score.cell.standard_error) if score.cell.has_score else None


def _if_scored(standing: Standing, score: Score | None) -> Score | None:
    return score if standing.has_score else None


def _mark_best_columns(table: Table, keys: Collection[str]) -> Table:
    """Return a table with the largest number of each of some columns marked as the best; the idle action aside."""
    rows = [list(row) for row in table.rows]
    for at, column in enumerate(table.columns):
        if column.key in keys:
            marked = _mark_best([None if IDLE in row else row[at] for row in rows])
            for row, cell in zip(rows, marked, strict=True):
                row[at] = row[at] if cell is None else cell
    return replace(table, rows=tuple(map(tuple, rows)))


def _mark_best(cells: Sequence[Cell]) -> list[Cell]:
    """Return cells with the largest numbers marked as the best, all of them where they are equal."""
    numbers = [
        cell.value if isinstance(cell, Number) else float(cell) for cell in cells if isinstance(cell, Number | int)
    ]
    best = max((value for value in numbers if not math.isnan(value)), default=math.nan)

    def mark(cell: Cell) -> Cell:
        if isinstance(cell, int) and cell == best:
            return Number(cell, 0, is_best=True)
        return replace(cell, is_best=True) if isinstance(cell, Number) and cell.value == best else cell

    return [mark(cell) for cell in cells]


def _drop_empty_columns(
    title: str, columns: list[Column], rows: list[tuple[Cell, ...]], notes: tuple[str, ...]
) -> Table:
    kept = [at for at in range(len(columns)) if any(row[at] is not None for row in rows)]
    shown = tuple(tuple(row[at] for at in kept) for row in rows)
    return Table(title, tuple(columns[at] for at in kept), shown, notes)


def _column(key: str, heading: str = "") -> Column:
    heading = heading or key
    return Column(key, heading, heading in _TEXT)


def _cell(score: Score | None) -> Cell:
    return None if score is None else Number(score.value, interval=score.interval)


def _mean(score: Score | None) -> Cell:
    return None if score is None else Number(score.value)


def _percent(rate: float | None, interval: Interval | None = None) -> Cell:
    return None if rate is None else Number(rate, interval=interval, percent=True)


def _score(score: Score | None) -> dict[str, Any] | None:
    return None if score is None else {"value": score.value, "interval": _ends(score.interval)}


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _isolation(runs: Iterable[RunRow]) -> list[str]:
    return sorted({run.isolation for run in runs if run.isolation})


def _fingerprint(of_runs: Iterable[str]) -> str | None:
    """Return the beginning of the hash that an entry's runs share, or the number of hashes."""
    hashes = sorted(set(of_runs))
    if not hashes:
        return None
    return hashes[0][:8] if len(hashes) == 1 else f"{len(hashes)} kinds"
