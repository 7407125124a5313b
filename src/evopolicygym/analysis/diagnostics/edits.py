"""The edits from each submission's parent to it, which kinds of edit pay, and the paper's rule.

``analysis/lineage/lineage.py`` defines parents, kinds and hits; ``edits.py`` there has the paper's rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.diagnostic import Diagnostic, share
from evopolicygym.analysis.lineage.edits import ASIDE, COUNTED, PaperEdit, PaperSubmission, by_paper_rule
from evopolicygym.analysis.lineage.lineage import lineage
from evopolicygym.analysis.ranking.bootstrap import Interval, share_interval
from evopolicygym.analysis.tables.table import Cell, Number, Table, table_of
from evopolicygym.core.submission import STARTER, EditKind
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.rows import Edit


@dataclass(frozen=True, slots=True)
class Hits:
    """The number of edits of a kind whose worth is known, and of hits among them."""

    edits: int
    hits: int

    @property
    def rate(self) -> float | None:
        """The share that were hits; None if there was no such edit."""
        return share(self.hits, self.edits)

    @property
    def shown_rate(self) -> Cell:
        """The rate with its 95 % interval (Clopper and Pearson 1934), as if edits were independent."""
        return None if self.rate is None else Number(self.rate, interval=share_interval(self.rate, self.edits))


@dataclass(frozen=True, slots=True)
class Edits:
    """One run's changes."""

    submissions: tuple[Edit, ...]
    paper: tuple[PaperSubmission, ...]
    """The paper's rule, applied to each submission."""
    hits: Mapping[str, Hits]
    """The hits by kind of edit, of the kinds that can be hits."""
    aside: Mapping[str, int]
    """The number of submissions of each of the other kinds."""
    mixtures: int
    """Edits that are not counted as their policy acts by the number of the episode."""
    paper_hits: Mapping[str, Hits]
    """The hits by the paper's kinds and its definition of a hit."""


def measure(record: RunRecord) -> Edits:
    """Return a run's changes."""
    edits, paper = lineage(record), by_paper_rule(record)
    return Edits(
        submissions=edits,
        paper=paper,
        hits={kind.value: _hits(edit.is_hit for edit in edits if edit.edit_kind is kind) for kind in COUNTED},
        aside={kind.value: sum(edit.edit_kind is kind for edit in edits) for kind in ASIDE},
        mixtures=sum(edit.edit_kind in COUNTED and edit.acts_by_episode for edit in edits),
        paper_hits={
            kind.value: _hits(submission.is_hit for submission in paper if submission.edit is kind)
            for kind in reversed(PaperEdit)
        },
    )


def _hits(outcomes: Iterable[bool | None]) -> Hits:
    known = [is_hit for is_hit in outcomes if is_hit is not None]
    return Hits(len(known), sum(known))


def table(edits: Edits) -> Table:
    """Return a table of each submission's parent, edit and gain."""
    has_hypotheses = any(edit.hypothesis for edit in edits.submissions)
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
        (*_row(edit, paper), *([edit.hypothesis or ""] if has_hypotheses else []))
        for edit, paper in zip(edits.submissions, edits.paper, strict=True)
    )
    return table_of("edits", (*columns, *(["hypothesis"] if has_hypotheses else [])), rows)


def _row(edit: Edit, paper: PaperSubmission) -> tuple[Cell, ...]:
    return (
        edit.submission,
        parent_name(edit),
        edit.edit_kind.value if edit.edit_kind else None,
        edit.changed_lines,
        edit.validation_mean,
        _gain(edit),
        _hit_text(edit.is_hit),
        remark(edit),
        paper.edit.value if paper.edit else None,
        _hit_text(paper.is_hit),
    )


def _gain(edit: Edit) -> Cell:
    if edit.paired_gain is None:
        return None
    low, high = edit.paired_gain_low, edit.paired_gain_high
    return Number(edit.paired_gain, None, interval=None if low is None or high is None else Interval(low, high))


def parent_name(edit: Edit) -> str | None:
    """Return the name of a submission's parent."""
    return None if edit.parent is None else "starter" if edit.parent == STARTER else str(edit.parent)


def remark(edit: Edit) -> str:
    """Return the remarks on a submission's edit."""
    remarks = [
        ("declared parent", edit.is_declared),
        ("broken", edit.is_broken),
        (f"mended by {edit.mended_by}", edit.mended_by is not None),
        ("acts by episode", edit.acts_by_episode),
    ]
    return ", ".join(words for words, holds in remarks if holds)


def _hit_text(is_hit: bool | None) -> str | None:  # noqa: FBT001 - a cell's value
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
    """Return the edits of a kind in some runs together, and the hits among them."""
    return _sum(run.hits[kind.value] for run in runs)


def _sum(several: Iterable[Hits]) -> Hits:
    every = list(several)
    return Hits(sum(hits.edits for hits in every), sum(hits.hits for hits in every))


def _rates(name: str, hits: Hits) -> dict[str, Cell]:
    return {name: hits.edits, f"{name} hits": hits.hits, f"{name} hit rate": hits.shown_rate}


DIAGNOSTIC = Diagnostic(measure, table, summary)
