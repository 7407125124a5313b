"""What stands in the tables of a leaderboard and of a pairing, for people and for programs.

``formats.py`` says how numbers become text; ``analysis/diagnostics/`` makes the tables of diagnostics.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from evopolicygym.analysis.ranking.bootstrap import Interval
from evopolicygym.analysis.ranking.leaderboard import Leaderboard, Score, Standing, TaskScore, mean_reported
from evopolicygym.analysis.ranking.pairing import Pairing, Verdict
from evopolicygym.analysis.ranking.score_table import Entry
from evopolicygym.analysis.tables.table import Cell, Column, Number, Table
from evopolicygym.core.number_text import decimals

IN_BRACKETS = "In brackets: the rank of an entry that lacks tasks, against those that have all. It has no place."
_TEXT = {
    "entry",
    "harness",
    "model",
    "effort",
    "task",
    "isolation",
    "better",
    "fingerprint",
    "program",
    "cases",
    "it covers",
    "interval covers",
}
_VERDICTS: Mapping[Verdict, str] = {"first": "A", "second": "B", "neither": "no"}


def standings_tables(board: Leaderboard) -> list[Table]:
    """Return the standings in tables that a person can read: ranks, the parts of the table, what it took."""
    whole = standings_table(board)
    parts = {name for one in board.standings for name in (*one.families, *one.kinds)}
    took = {"harness", "model", "effort", "tokens", "cost", "hours", "isolation", "fingerprint", "program"}
    named = {"place", "entry"}
    tables = [_narrowed(whole, whole.title, lambda key: key not in parts | took)]
    for title, keys in (("Rank score by family, normalised score by kind", parts), ("What it took, a repeat", took)):
        table = _narrowed(whole, title, lambda key, keys=keys: key in keys | named)  # type: ignore[misc]
        if any(column.key in keys for column in table.columns):
            tables.append(table)
    return [*tables[:-1], replace(tables[-1], notes=whole.notes)]


def _narrowed(table: Table, title: str, wanted: Callable[[str], bool]) -> Table:
    kept = [at for at, column in enumerate(table.columns) if wanted(column.key)]
    rows = tuple(tuple(row[at] for at in kept) for row in table.rows)
    return Table(title, tuple(table.columns[at] for at in kept), rows)


def standings_table(board: Leaderboard) -> Table:
    """Return the standings in one table, without columns that nobody has anything in."""
    columns = [_column("place", "#"), _column("tier"), _column("entry"), _column("coverage"), _column("repeats")]
    columns += [_column("rank_score", "rank score"), _column("normalised")]
    families = list(dict.fromkeys(task.family for task in board.tasks))
    kinds = sorted({kind for one in board.standings for kind in one.kinds})
    columns += [_column(name) for name in (*families, *kinds)] if len(board.tasks) > 1 else []
    columns += [_column("wins"), _column("top_2", "top-2"), _column("success_rate", "success")]
    columns += [_column("harness"), _column("model"), _column("effort")]
    columns += [_column("tokens"), _column("cost", "cost, $"), _column("hours"), _column("isolation")]
    columns += [_column("fingerprint"), _column("program")]
    rows = [
        _line(board, one, families if len(board.tasks) > 1 else [], kinds if len(board.tasks) > 1 else [])
        for one in board.standings
    ]
    return _without_empty("Leaderboard", columns, rows, board.notes)


def task_tables(board: Leaderboard) -> list[Table]:
    """Return a table for each task, the best first."""
    tables = []
    for task in board.tasks:
        having = [one for one in board.standings if task.name in one.tasks]
        having.sort(key=lambda one: (one.tasks[task.name].rank, -one.tasks[task.name].cell.mean))
        columns = [
            _column("rank", "#"), _column("entry"), _column("repeats"), _column("held_out", "held-out mean ± s.e."),
            _column("interval", "95 % interval"), _column("covers", "it covers"),
            _column("rank_score", "rank score"), _column("normalised"),
            _column("success_rate", "success"), _column("tokens"), _column("cost", "cost, $"), _column("isolation"),
        ]  # fmt: skip
        rows = [_task_line(one, task.name) for one in having]
        if task.idle:
            idle = Number(task.idle.mean, None, task.idle.standard_error)
            rows.append((None, "Idle action (not ranked)", None, idle, *(None,) * 8))
        notes = () if all(one.tasks[task.name].is_counted for one in having) else (IN_BRACKETS,)
        tables.append(_without_empty(f"{task.name} ({task.family}, {task.kind.value})", columns, rows, notes))
    return tables


def scores_tables(board: Leaderboard) -> list[Table]:
    """Return tasks by entries, the best entry first: held-out means, and success rates where any are known."""
    columns = tuple(_column(one.entry.shown) for one in board.standings)

    def by_task(title: str, line: Callable[[list[TaskScore | None]], list[Cell]]) -> Table:
        lines = {task.name: line([one.tasks.get(task.name) for one in board.standings]) for task in board.tasks}
        rows = [(task, *cells) for task, cells in lines.items() if any(cell is not None for cell in cells)]
        return Table(title, (_column("task"), *columns), tuple(rows))

    def means(scores: list[TaskScore | None]) -> list[Cell]:
        return [Number(one.cell.mean, None, one.cell.standard_error) if one else None for one in scores]

    def rates(scores: list[TaskScore | None]) -> list[Cell]:
        return [_percent(one.cell.success_rate) if one else None for one in scores]

    tables = [by_task("Held-out mean ± s.e.", means), by_task("Success rate", rates)]
    shown = [table for table in tables if table.rows]
    return [*shown[:-1], replace(shown[-1], notes=board.notes)]


def pairing_table(pair: Pairing) -> Table:
    """Return two entries task by task, first where they differ most."""
    columns = [
        _column("task"), _column("first", "A"), _column("second", "B"), _column("difference", "A - B"),
        _column("covers", "interval covers"), _column("normalised", "normalised"), _column("improvement", "P(A > B)"),
        _column("cases"), _column("case", "most on case"), _column("case_difference", "by"),
        _column("told_apart", "better"),
    ]  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            one.task, Number(one.first, None), Number(one.second, None),
            Number(one.difference, None, interval=one.interval),
            one.covers, None if one.normalised is None else Number(one.normalised), Number(one.improvement, 2),
            "paired" if one.paired else "not paired", one.most.case if one.most else None,
            Number(one.most.difference, None) if one.most else None,
            None if one.verdict is None else _VERDICTS[one.verdict],
        )
        for one in pair.tasks
    ]  # fmt: skip
    return _without_empty(f"A: {pair.first.shown}; B: {pair.second.shown}", columns, rows, pair.notes)


def leaderboard_document(board: Leaderboard, problems: Iterable[Mapping[str, str]] = ()) -> dict[str, Any]:
    """Return the whole leaderboard for programs."""
    return {
        "tasks": [{"name": one.name, "family": one.family, "kind": one.kind.value} for one in board.tasks],
        "entries": [_standing(board, one) for one in board.standings],
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
        "tasks_first_better": better[0] if better else None,
        "tasks_second_better": better[1] if better else None,
        "tasks": [
            {
                "task": one.task,
                "first": one.first,
                "second": one.second,
                "difference": one.difference,
                "interval": _ends(one.interval),
                "interval_covers": one.covers,
                "repeats": list(one.repeats),
                "verdict": one.verdict,
                "paired": one.paired,
                "probability_of_improvement": one.improvement,
                "normalised_difference": one.normalised,
                "most": {"case": one.most.case, "difference": one.most.difference} if one.most else None,
            }
            for one in pair.tasks
        ],
        "notes": list(pair.notes),
    }


def leaderboards_document(
    boards: Mapping[str, Leaderboard], problems: Iterable[Mapping[str, str]] = ()
) -> dict[str, Any]:
    """Return leaderboards for programs: one alone as it is; several, by what sets them apart, under ``tables``."""
    if len(boards) == 1:
        return leaderboard_document(next(iter(boards.values())), problems)
    tables = [{"title": title, **leaderboard_document(board)} for title, board in boards.items()]
    for one in tables:
        del one["problems"]  # they are of all runs
    return {"tables": tables, "problems": list(problems)}


def titled(title: str, tables: Iterable[Table]) -> list[Table]:
    """Return tables whose titles say, too, which of several tables they belong to; none is said of an only one."""
    return [replace(table, title=f"{table.title} ({title})" if title else table.title) for table in tables]


def with_table(title: str, table: Table) -> Table:
    """Return a table whose first column names the table that each row is of, for formats without titles."""
    if not title:
        return table
    return replace(table, columns=(_column("table"), *table.columns), rows=tuple((title, *row) for row in table.rows))


def _standing(board: Leaderboard, one: Standing) -> dict[str, Any]:
    return {
        "entry": one.entry.label,
        "kind": one.entry.kind,
        "harness": one.entry.harness,
        "model": one.entry.model,
        "effort": one.entry.effort,
        "intervals_cover": one.covers,
        "source": one.entry.source or None,
        "ours": one.entry.is_ours,
        "place": one.place,
        "tier": one.tier,
        "coverage": {"tasks": len(one.tasks), "of": len(board.tasks)},
        "rank_score": _score(one.rank_score),
        "normalised": _score(one.normalised),
        "families": {name: _score(score) for name, score in one.families.items()},
        "kinds": {name: _score(score) for name, score in one.kinds.items()},
        "wins": one.wins,
        "top_2": one.top_2,
        "success_rate": one.success_rate,
        "tokens": one.tokens,
        "cost": one.cost,
        "wall_seconds": one.wall_s,
        "isolation": _isolation(one.entry),
        "tasks": {
            name: {
                "mean": score.cell.mean,
                "standard_error": score.cell.standard_error,
                "interval": _ends(score.cell.interval),
                "interval_covers": score.cell.covers,
                "repeats": len(score.cell.runs),
                "rank": score.rank,
                "of": score.of,
                "counted": score.is_counted,
                "rank_score": _score(score.rank_score),
                "normalised": _score(score.normalised),
                "success_rate": score.cell.success_rate,
                "runs": [str(run.root) for run in score.cell.runs],
                "commitments": sorted({run.commitment for run in score.cell.runs}),
                "fingerprints": sorted({run.fingerprint for run in score.cell.runs}),
                "programs": sorted({sha256 for run in score.cell.runs for sha256 in run.programs}),
            }
            for name, score in one.tasks.items()
        },
    }


def _line(board: Leaderboard, one: Standing, families: list[str], kinds: list[str]) -> tuple[Cell, ...]:
    missing = len(one.tasks) < len(board.tasks)
    repeats = sorted({len(score.cell.runs) for score in one.tasks.values() if score.cell.runs})
    return (
        one.place,
        one.tier,
        one.entry.shown,
        f"{len(one.tasks)}/{len(board.tasks)}" if missing else None,
        " to ".join(str(count) for count in dict.fromkeys((repeats[0], repeats[-1]))) if repeats else None,
        _cell(one.rank_score),
        _cell(one.normalised),
        *(_mean(one.families.get(name)) for name in families),
        *(_mean(one.kinds.get(name)) for name in kinds),
        one.wins,
        one.top_2,
        _percent(one.success_rate),
        one.entry.harness,
        one.entry.model,
        one.entry.effort,
        None if one.tokens is None else round(one.tokens),
        None if one.cost is None else Number(one.cost, 2),
        None if one.wall_s is None else Number(one.wall_s / 3600, 1),
        ", ".join(_isolation(one.entry)) or None,
        _fingerprint(run.fingerprint for run in one.entry.runs),
        _fingerprint(sha256 for run in one.entry.runs for sha256 in run.programs),
    )


def _task_line(one: Standing, task: str) -> tuple[Cell, ...]:
    score = one.tasks[task]
    cell, runs = score.cell, score.cell.runs
    interval, digits = cell.interval, decimals(cell.mean, cell.standard_error)
    tokens, cost = mean_reported([run.tokens for run in runs]), mean_reported([run.cost for run in runs])
    return (
        score.rank if score.is_counted else f"({score.rank})", one.entry.shown, len(runs) or None,
        Number(cell.mean, None, cell.standard_error),
        f"{interval.low:,.{digits}f} to {interval.high:,.{digits}f}" if interval else None, cell.covers,
        _mean(score.rank_score), _mean(score.normalised), _percent(cell.success_rate),
        None if tokens is None else round(tokens), None if cost is None else Number(cost, 2),
        ", ".join(sorted({run.isolation for run in runs})) or None,
    )  # fmt: skip


def _without_empty(title: str, columns: list[Column], rows: list[tuple[Cell, ...]], notes: tuple[str, ...]) -> Table:
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


def _percent(rate: float | None) -> Cell:
    return None if rate is None else Number(rate, percent=True)


def _score(score: Score | None) -> dict[str, Any] | None:
    return None if score is None else {"value": score.value, "interval": _ends(score.interval)}


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _isolation(entry: Entry) -> list[str]:
    return sorted({run.isolation for run in entry.runs})


def _fingerprint(of_runs: Iterable[str]) -> str | None:
    """Return the beginning of the hash that all of an entry's runs share, or how many there are."""
    found = sorted(set(of_runs))
    if not found:
        return None
    return found[0][:8] if len(found) == 1 else f"{len(found)} kinds"
