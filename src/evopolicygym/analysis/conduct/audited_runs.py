"""Several runs looked at, each once: those that can't be read are named with the reason."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from evopolicygym.analysis.conduct.audit_run import Conduct, audit_run
from evopolicygym.analysis.conduct.detector import Detector
from evopolicygym.analysis.conduct.finding import Grade
from evopolicygym.analysis.ranking.leaderboard import Leaderboard
from evopolicygym.analysis.results import Problem
from evopolicygym.analysis.tables.table import Cell, Table, table_of
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.text import printable
from evopolicygym.records.reader import read_run

GRAVEST_FIRST: Sequence[Grade] = (Grade.SERIOUS, Grade.LOOK, Grade.NOTE)
"""The order in which tables count findings."""


def audited_runs(
    roots: Iterable[Path], detectors: Mapping[str, Detector]
) -> tuple[dict[Path, tuple[str, Conduct]], list[Problem]]:
    """Return what was found in each run, with its entry, and the runs that can't be read."""
    found: dict[Path, tuple[str, Conduct]] = {}
    problems: list[Problem] = []
    for root in roots:
        try:
            record = read_run(root)
            found[root] = record.state.opened.agent.entry, audit_run(record, detectors)
        except (EvoPolicyGymError, OSError) as error:
            problems.append(Problem(root, f"not audited: {printable(str(error))}"))
    return found, problems


def conduct_table(board: Leaderboard, found: Mapping[Path, tuple[str, Conduct]]) -> Table:
    """Return the findings by grade of each entry of a leaderboard that has runs which were audited."""
    rows: list[tuple[Cell, ...]] = []
    for one in board.standings:
        audited = [found[run.root][1] for run in one.entry.runs if run.root in found]
        if audited:
            counts = [sum(conduct.counts[grade] for conduct in audited) for grade in GRAVEST_FIRST]
            rows.append((one.entry.shown, len(audited), *counts))
    names = ("entry", "runs audited", *(grade.value for grade in GRAVEST_FIRST))
    return table_of("What agents did: findings by grade", names, rows)
