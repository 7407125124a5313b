"""The different programs that a run tried, how long it stayed with each, and how much it preserved.

A *topology* is a program without its literals, names and order (``analysis/lineage/normal_form.py``): two submissions
of one topology differ in settings alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.diagnostic import Diagnostic, mean, share
from evopolicygym.analysis.lineage.lineage import lineage
from evopolicygym.analysis.tables.table import Cell, Table, table_of
from evopolicygym.core.score import best_so_far
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.rows import Edit


@dataclass(frozen=True, slots=True)
class Topology:
    """One program without its literals."""

    first: int
    """The submission that it came with."""
    submissions: int
    episodes: int
    validation_best: float | None
    """The best validation mean among its submissions; None if none is known."""
    gain: float | None
    """How far that is above the best of all submissions before its first; None if either is not known."""


@dataclass(frozen=True, slots=True)
class Topologies:
    """One run's programs."""

    topologies: tuple[Topology, ...]
    """In order of first appearance; submissions that can't be parsed, or are missing, have none."""
    rollbacks: int
    """Submissions that went back to a topology that others came after."""
    preserved: float | None
    """Mean over edits of the share of the parent's functions that were kept unchanged; None if none had any."""


def measure(record: RunRecord) -> Topologies:
    """Return a run's programs."""
    edits = lineage(record)
    known = [edit for edit in edits if edit.topology is not None]
    bests = [None, *best_so_far(edit.validation_mean for edit in edits)]
    numbers = dict.fromkeys(edit.topology for edit in known)
    return Topologies(
        topologies=tuple(_topology([edit for edit in known if edit.topology == number], bests) for number in numbers),
        rollbacks=_rollbacks(known),
        preserved=mean(edit.preserved for edit in edits[1:]),
    )


def _topology(own: Sequence[Edit], bests: Sequence[float | None]) -> Topology:
    first = own[0].submission
    best, before = best_so_far(edit.validation_mean for edit in own)[-1], bests[first]
    return Topology(
        first=first,
        submissions=len(own),
        episodes=sum(edit.episodes for edit in own),
        validation_best=best,
        gain=None if best is None or before is None else best - before,
    )


def _rollbacks(known: Iterable[Edit]) -> int:
    """Return how many submissions return to an earlier topology that is not the previous one."""
    seen: set[int | None] = set()
    count, last = 0, None
    for edit in known:
        count += edit.topology in seen and edit.topology != last
        seen.add(edit.topology)
        last = edit.topology
    return count


def table(topologies: Topologies) -> Table:
    """Return a table of the topologies."""
    columns = ("topology", "first", "submissions", "episodes", "best validation", "gain")
    rows = tuple(
        (number, topology.first, topology.submissions, topology.episodes, topology.validation_best, topology.gain)
        for number, topology in enumerate(topologies.topologies)
    )
    return table_of("topologies", columns, rows)


def summary(runs: Sequence[Topologies]) -> Mapping[str, Cell]:
    """Return means over runs; episodes a topology over all topologies of all of them."""
    every = [topology for run in runs for topology in run.topologies]
    return {
        "topologies": mean(len(run.topologies) for run in runs),
        "episodes a topology": share(sum(topology.episodes for topology in every), len(every)),
        "longest stay": mean(_longest(run) for run in runs),
        "gaining topologies": share(
            sum(topology.gain is not None and topology.gain > 0 for topology in every),
            sum(topology.gain is not None for topology in every),
        ),
        "rollbacks": mean(run.rollbacks for run in runs),
        "preserved": mean(run.preserved for run in runs),
    }


def _longest(run: Topologies) -> float | None:
    """Return the share of episodes that the topology with the most of them got."""
    return share(
        max((topology.episodes for topology in run.topologies), default=0),
        sum(topology.episodes for topology in run.topologies),
    )


DIAGNOSTIC = Diagnostic(measure, table, summary)
