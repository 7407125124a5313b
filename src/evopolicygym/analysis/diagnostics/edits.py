"""What agents change from a submission's parent to it, which kinds of change pay, and what the paper's rule says of it.

Parents, kinds and hits are described in ``analysis/lineage/lineage.py``, the paper's rule beside it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.diagnostic import Diagnostic, share
from evopolicygym.analysis.lineage.edits import ASIDE, COUNTED, EditKind, PaperEdit, PaperSubmission, by_paper_rule
from evopolicygym.analysis.lineage.lineage import Descent, lineage
from evopolicygym.analysis.tables.table import Cell, Number, Table, table_of
from evopolicygym.core.submission import STARTER
from evopolicygym.records.reader import RunRecord


@dataclass(frozen=True, slots=True)
class Hits:
    """How many edits of one kind there were, among those of which it is known what they were worth."""

    edits: int
    hits: int

    @property
    def rate(self) -> float | None:
        """The share that were hits; None where there was no such edit."""
        return share(self.hits, self.edits)


@dataclass(frozen=True, slots=True)
class Edits:
    """One run's changes."""

    submissions: tuple[Descent, ...]
    paper: tuple[PaperSubmission, ...]
    """What the paper's rule says of each."""
    hits: Mapping[str, Hits]
    """By kind of edit, of those kinds of which it is asked whether they paid."""
    aside: Mapping[str, int]
    """How many submissions there were of each of the other kinds."""
    mixtures: int
    """Edits that are not counted as their policy acts by the number of the episode."""
    paper_hits: Mapping[str, Hits]
    """By the paper's kinds and hits."""


def measure(record: RunRecord) -> Edits:
    """Return a run's changes."""
    found, paper = lineage(record), by_paper_rule(record)
    return Edits(
        submissions=found,
        paper=paper,
        hits={kind.value: _hits(one.is_hit for one in found if one.edit is kind) for kind in COUNTED},
        aside={kind.value: sum(one.edit is kind for one in found) for kind in ASIDE},
        mixtures=sum(one.edit in COUNTED and one.acts_by_episode for one in found),
        paper_hits={kind.value: _hits(one.is_hit for one in paper if one.edit is kind) for kind in reversed(PaperEdit)},
    )


def _hits(found: Iterable[bool | None]) -> Hits:
    known = [is_hit for is_hit in found if is_hit is not None]
    return Hits(len(known), sum(known))


def table(edits: Edits) -> Table:
    """Return where each submission came from, the change, and what came of it."""
    has_hypotheses = any(one.hypothesis for one in edits.submissions)
    columns = (
        "submission",
        "parent",
        "edit",
        "lines",
        "validation",
        "gain",
        "hit",
        "remark",
        "paper's edit",
        "new best",
    )
    rows = (
        (*_row(one, paper), *([one.hypothesis] if has_hypotheses else []))
        for one, paper in zip(edits.submissions, edits.paper, strict=True)
    )
    return table_of("edits", (*columns, *(["hypothesis"] if has_hypotheses else [])), rows)


def _row(one: Descent, paper: PaperSubmission) -> tuple[Cell, ...]:
    worth = Number(one.gain.mean, None, interval=one.gain.interval) if one.gain else None
    return (
        one.submit_index,
        parent_name(one),
        one.edit.value if one.edit else None,
        one.changed_lines,
        one.validation_mean,
        worth,
        _said(one.is_hit),
        remark(one),
        paper.edit.value if paper.edit else None,
        _said(paper.is_hit),
    )


def parent_name(one: Descent) -> str | None:
    """Return what a submission's parent is called."""
    return None if one.parent is None else "starter" if one.parent == STARTER else str(one.parent)


def remark(one: Descent) -> str:
    """Return what a reader has to know of a submission's edit."""
    remarks = [
        ("declared parent", one.is_declared),
        (f"mended by {one.mended_by}", one.mended_by is not None),
        ("acts by episode", one.acts_by_episode),
    ]
    return ", ".join(words for words, holds in remarks if holds)


def _said(is_hit: bool | None) -> str | None:  # noqa: FBT001 - a cell's value
    return {None: None, True: "yes", False: ""}[is_hit]


def summary(runs: Sequence[Edits]) -> Mapping[str, Cell]:
    """Return edits and hit rates by kind of edit, over all edits of all runs; by our rule, then by the paper's."""
    cells: dict[str, Cell] = {}
    for kind in COUNTED:
        cells |= _rates(kind.value, total(runs, kind))
    cells |= {kind.value: sum(run.aside[kind.value] for run in runs) for kind in ASIDE}
    cells |= {"mixtures": sum(run.mixtures for run in runs)}
    for paper in (PaperEdit.STRUCTURAL, PaperEdit.PARAMETRIC, PaperEdit.NONE):
        cells |= _rates(f"paper {paper.value}", _sum(run.paper_hits[paper.value] for run in runs))
    return cells


def total(runs: Iterable[Edits], kind: EditKind) -> Hits:
    """Return how many edits of a kind some runs have together, and how many of them were hits."""
    return _sum(run.hits[kind.value] for run in runs)


def _sum(several: Iterable[Hits]) -> Hits:
    every = list(several)
    return Hits(sum(one.edits for one in every), sum(one.hits for one in every))


def _rates(name: str, hits: Hits) -> dict[str, Cell]:
    return {name: hits.edits, f"{name} hits": hits.hits, f"{name} hit rate": hits.rate}


DIAGNOSTIC = Diagnostic(measure, table, summary)
