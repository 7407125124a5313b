"""The best score that is known of a task, of whatever kind, and who holds it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.published.other_protocol import OtherFigures
from evopolicygym.analysis.published.score_tables import AGENT
from evopolicygym.analysis.ranking.score_table import Cell, Entry, ScoreTable
from evopolicygym.specs.catalog import GameIdentity

RUN, PUBLISHED, ELSEWHERE = "run", "published", "published elsewhere"


@dataclass(frozen=True, slots=True)
class KnownScore:
    """A mean held-out return, and whose it is."""

    score: float
    holder: str
    kind: str
    """``run``, ``published``, ``published elsewhere``, or what a shipped table calls it, such as ``reference``."""
    standard_error: float | None = None
    """None where a mean alone was published."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether it was made under another protocol, so that nothing is normalised by it."""
        return self.kind == ELSEWHERE


def is_agents(entry: Entry, cell: Cell) -> bool:
    """Whether a score is that of an agent that could improve its policy, and not of a policy that was brought.

    A run with a budget of one episode has no feedback to learn from: so references and trained policies are played.
    """
    return all(run.budget > 1 for run in cell.runs) if cell.runs else entry.kind == AGENT


def best_here(task: str, table: ScoreTable, others: Iterable[ScoreTable] = ()) -> KnownScore | None:
    """Return the best score under our protocol, of a table and of runs of the same game in other tables.

    An entry that was repeated counts with its mean: the best of many runs is the best by luck, too.
    """
    return _best(_known(task, table, others, agents=False))


def best_agent(task: str, table: ScoreTable, others: Iterable[ScoreTable] = ()) -> KnownScore | None:
    """Return the best score of an agent under our protocol."""
    return _best(_known(task, table, others, agents=True))


def best_elsewhere(gymnasium_id: str, figures: Sequence[OtherFigures]) -> KnownScore | None:
    """Return the best figure that was published of an environment under another protocol."""
    found = [task.best for one in figures if (task := one.of_game(gymnasium_id))]
    return _best(KnownScore(one.score, one.label, ELSEWHERE) for one in found)


def gymnasium_id(task: str, table: ScoreTable, ids: Mapping[str, str]) -> str:
    """Return what gymnasium registers a task as; empty where nobody says it."""
    game = _game(task, table)
    return game.id if game else ids.get(task, "")


def _known(task: str, table: ScoreTable, others: Iterable[ScoreTable], *, agents: bool) -> Iterator[KnownScore]:
    game = _game(task, table)
    for one in (table, *others):
        for entry in one.entries:
            cell = entry.cells.get(task)
            if cell is None or not math.isfinite(cell.mean) or (agents and not is_agents(entry, cell)):
                continue
            if one is table or (cell.runs and (game is None or cell.runs[0].game.is_same(game))):
                yield KnownScore(cell.mean, entry.shown, _kind(entry), cell.standard_error)


def _kind(entry: Entry) -> str:
    if entry.kind != AGENT:
        return entry.kind
    return PUBLISHED if entry.is_shipped else RUN


def _game(task: str, table: ScoreTable) -> GameIdentity | None:
    runs = (run for entry in table.entries if task in entry.cells for run in entry.cells[task].runs)
    return next((run.game for run in runs), None)


def _best(known: Iterable[KnownScore]) -> KnownScore | None:
    return max(known, key=lambda one: one.score, default=None)
