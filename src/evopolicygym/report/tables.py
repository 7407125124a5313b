"""The tables of a report: the leaderboard, its tasks, a comparison and each diagnostic, written as files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evopolicygym.analysis.conduct.audit_run import conduct_notes, conduct_table
from evopolicygym.analysis.diagnostic import DIAGNOSTICS, table_over_runs
from evopolicygym.analysis.headroom.headroom import headroom
from evopolicygym.analysis.published.score_tables import ANCHOR
from evopolicygym.analysis.ranking.aggregates import aggregates_document, aggregates_table
from evopolicygym.analysis.ranking.leaderboard import Leaderboard, leaderboard
from evopolicygym.analysis.ranking.pairing import Pairing, pairing
from evopolicygym.analysis.ranking.score_table import Entry, ScoreTable
from evopolicygym.analysis.report_data import ReportData
from evopolicygym.analysis.tables.contents import (
    leaderboard_document,
    overall_table,
    pairing_document,
    pairing_table,
    standings_table,
    standings_tables,
    task_scores_table,
    task_tables,
)
from evopolicygym.analysis.tables.published import figures_in_long, figures_table
from evopolicygym.analysis.tables.studies import headroom_document, headroom_table
from evopolicygym.analysis.tables.table import Table, format_tables, with_left_out
from evopolicygym.core.strict_json import dumps

Writer = Callable[[ReportData], Mapping[str, str]]
TABLE_FORMATS = {"md": "markdown", "csv": "csv", "tex": "latex"}
"""Formats of a table of numbers, by suffix."""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of a report with the texts of its files by suffix."""

    title: str
    caption: str
    method: str
    write: Writer
    """Returns texts by suffix, the one shown in the index first; empty if the table has no rows."""


def _texts(
    tables: Sequence[Table], as_csv: Sequence[Table] = (), document: Mapping[str, Any] | None = None
) -> Mapping[str, str]:
    """Return the texts of tables by suffix: as CSV those of ``as_csv``, where given; a ``document`` as JSON."""
    of_suffix = {"csv": as_csv or tables}
    texts = {suffix: format_tables(of_suffix.get(suffix, tables), form) for suffix, form in TABLE_FORMATS.items()}
    return texts if document is None else texts | {"json": dumps(document, indent=2) + "\n"}


def _leaderboard(data: ReportData) -> Mapping[str, str]:
    board = data.board
    if board is None:
        return {}
    problems = [{"run": str(problem.root), "reason": problem.reason} for problem in data.problems]
    board = replace(board, notes=(*conduct_notes(board.entries, data.conduct), *board.notes))
    tables = with_left_out(standings_tables(board), _left_out(data))
    return _texts(tables, [standings_table(board)], leaderboard_document(board, problems))


def _left_out(data: ReportData) -> list[tuple[str, str]]:
    return [(str(problem.root), problem.reason) for problem in data.problems]


def _conduct(data: ReportData) -> Mapping[str, str]:
    if data.board is None or not data.conduct:
        return {}
    notes = conduct_notes(data.board.entries, data.conduct)
    table = replace(conduct_table(data.board, data.conduct), notes=tuple(notes))
    return _texts([table])


def _aggregates(data: ReportData) -> Mapping[str, str]:
    if not data.aggregates.entries:
        return {}
    return _texts([aggregates_table(data.aggregates)], document=aggregates_document(data.aggregates))


def _tasks(data: ReportData) -> Mapping[str, str]:
    board = data.board
    if board is None:
        return {}
    tables = task_tables(board)
    with_notes = [*tables[:-1], replace(tables[-1], notes=(*tables[-1].notes, *board.notes))]
    return _texts(with_left_out(with_notes, _left_out(data)), [task_scores_table(board)])


def _compare(data: ReportData) -> Mapping[str, str]:
    pair = _best_two(data)
    if pair is None:
        return {}
    pair = replace(pair, of_table=(*conduct_notes((pair.first, pair.second), data.conduct), *pair.of_table))
    table = pairing_table(pair)
    return _texts([table, overall_table(pair)], [table], pairing_document(pair))


def _best_two(data: ReportData) -> Pairing | None:
    """Return the comparison of the two best played entries, on all tasks of both, also those of no shipped table.

    With one played entry, that with the best shipped one.
    """
    if data.table is None or data.board is None:
        return None
    if data.played is not None:
        board = data.board if data.played is data.table else leaderboard(data.played)
        played = _ranked(board, is_shipped=False)[:2]
        if pair := _pairing(data.played, played):
            return pair
    best = [*_ranked(data.board, is_shipped=False), *_ranked(data.board, is_shipped=True)]
    return _pairing(data.table, best[:2])


def _ranked(board: Leaderboard, *, is_shipped: bool) -> list[Entry]:
    """Return the entries that are played, or shipped, the best first; anchors are neither."""
    entries = [standing.entry for standing in board.standings if standing.entry.kind != ANCHOR]
    return [entry for entry in entries if entry.is_shipped == is_shipped]


def _pairing(table: ScoreTable, entries: Sequence[Entry]) -> Pairing | None:
    """Return the comparison of two entries; None unless there are two that share a task, the first of them played."""
    match entries:
        case [first, second] if not (first.is_shipped or first.cells.keys().isdisjoint(second.cells)):
            return pairing(table, first.label, second.label)
    return None


def _headroom(data: ReportData) -> Mapping[str, str]:
    if data.table is None:
        return {}
    result = headroom(data.table, data.around)
    if not any(task.left or task.verdict.is_known for task in result.tasks):
        return {}
    return _texts([headroom_table(result)], document=headroom_document(result))


def _published(data: ReportData) -> Mapping[str, str]:
    figures = [figure for figure in data.around.figures if figure.tasks]
    if not figures:
        return {}
    return _texts([figures_table(figure) for figure in figures], [figures_in_long(figure) for figure in figures])


def _diagnostic(name: str) -> Writer:
    def write(data: ReportData) -> Mapping[str, str]:
        runs = [(run.group, measured) for run, measured in data.measured(name)]
        return _texts([table_over_runs(name, DIAGNOSTICS.load(name), runs)]) if runs else {}

    return write


OF_BOARD: Mapping[str, ReportTable] = {
    "leaderboard": ReportTable(
        "Leaderboard",
        "Places, tiers, rank scores and normalised scores of all entries with 95 % intervals, and what they took.",
        "As `evopolicygym leaderboard` does, by the formulas of docs/measure/leaderboard.md.",
        _leaderboard,
    ),
    "conduct": ReportTable(
        "What agents did",
        "ReportData of the audit of each entry's runs by grade, and how many runs' conversations could not be read.",
        "As `evopolicygym audit` does, by docs/measure/audit.md; a finding is evidence for a person to read.",
        _conduct,
    ),
    "aggregates": ReportTable(
        "Aggregates of normalised scores",
        "Interquartile mean, median, mean and optimality gap of each entry over all runs of all tasks.",
        "As `leaderboard --show aggregates` does, by the formulas of docs/measure/leaderboard.md. JSON has "
        "the performance profiles with their bands.",
        _aggregates,
    ),
    "tasks": ReportTable(
        "Each task",
        "Every entry's held-out mean, rank and normalised score on each task.",
        "As `evopolicygym leaderboard --per-task` does: means over repeats of means over held-out cases.",
        _tasks,
    ),
    "compare": ReportTable(
        "The two best entries compared",
        "On which tasks the two best entries that were played differ, and by how much, first where they differ most.",
        "As `evopolicygym compare` does: paired by task, and by case where both played the same.",
        _compare,
    ),
    "headroom": ReportTable(
        "Headroom",
        "Of each task the best known score and who holds it, what the best agent leaves to it, and a verdict.",
        "As `evopolicygym headroom` does, by the formulas of docs/measure/headroom.md.",
        _headroom,
    ),
    "published": ReportTable(
        "Published under other protocols",
        "What others published of these tasks, with how each protocol differs; nothing is ranked by it.",
        "As it was published; `evopolicygym leaderboard --tables published` shows the same.",
        _published,
    ),
}
_SAY: Mapping[str, str] = {
    "learning_curve": "How soon and how far each entry improved: its final, area, episodes to heights, plateau.",
    "budget": "Where each entry's episodes went: submissions, distinct cases, and what was spent after the selection.",
    "edits": "What each entry changed, the part of each kind that was a real gain, and the paper's rule beside.",
    "topologies": "How many different programs each entry tried, how long it stayed with one, and what it kept.",
    "code": "What the selected policies are like as programs: files, lines, functions, branches, imports.",
    "generalisation": "How far train and validation means of the selected checkpoints hold on held-out cases.",
    "failures": "Submissions that could not be loaded and episodes that failed, by cause, and what was mended.",
    "cost": "Tokens and money of a run, by submission and by point of normalised score.",
}


def tables() -> dict[str, ReportTable]:
    """Return all tables by name: the leaderboard's, then one for each diagnostic, including those of other packages."""
    own = {
        name: ReportTable(
            name.replace("_", " ").capitalize(),
            _SAY.get(name, f"What the diagnostic {name} measured."),
            "As `evopolicygym diagnose` does, by the formulas of docs/measure/diagnostics.md: a row for each entry and "
            "kind of task.",
            _diagnostic(name),
        )
        for name in DIAGNOSTICS.names()
    }
    return {**OF_BOARD, **own}
