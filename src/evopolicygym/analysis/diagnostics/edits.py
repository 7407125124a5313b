"""The edits from each submission's parent to it, which kinds of edit pay, and the paper's rule.

``analysis/lineage/lineage.py`` defines parents, kinds and hits; ``edits.py`` there has the paper's rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.diagnostic import Diagnostic, share
from evopolicygym.analysis.lineage.edits import ASIDE, COUNTED, EditKind, PaperEdit, PaperSubmission, by_paper_rule
from evopolicygym.analysis.lineage.lineage import Descent, lineage
from evopolicygym.analysis.ranking.bootstrap import share_interval
from evopolicygym.analysis.tables.table import Cell, Number, Table, table_of
from evopolicygym.core.submission import STARTER
from evopolicygym.records.reader import RunRecord


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

    submissions: tuple[Descent, ...]
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
    found, paper = lineage(record), by_paper_rule(record)
    return Edits(
        submissions=found,
        paper=paper,
        hits={kind.value: _hits(descent.is_hit for descent in found if descent.edit is kind) for kind in COUNTED},
        aside={kind.value: sum(descent.edit is kind for descent in found) for kind in ASIDE},
        mixtures=sum(descent.edit in COUNTED and descent.acts_by_episode for descent in found),
        paper_hits={
            kind.value: _hits(submission.is_hit for submission in paper if submission.edit is kind)
            for kind in reversed(PaperEdit)
        },
    )


def _hits(found: Iterable[bool | None]) -> Hits:
    known = [is_hit for is_hit in found if is_hit is not None]
    return Hits(len(known), sum(known))


def table(edits: Edits) -> Table:
    """Return a table of each submission's parent, edit and gain."""
    has_hypotheses = any(descent.hypothesis for descent in edits.submissions)
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
        (*_row(descent, paper), *([descent.hypothesis] if has_hypotheses else []))
        for descent, paper in zip(edits.submissions, edits.paper, strict=True)
    )
    return table_of("edits", (*columns, *(["hypothesis"] if has_hypotheses else [])), rows)


def _row(descent: Descent, paper: PaperSubmission) -> tuple[Cell, ...]:
    worth = Number(descent.gain.mean, None, interval=descent.gain.interval) if descent.gain else None
    return (
        descent.submit_index,
        parent_name(descent),
        descent.edit.value if descent.edit else None,
        descent.changed_lines,
        descent.validation_mean,
        worth,
        _hit_text(descent.is_hit),
        remark(descent),
        paper.edit.value if paper.edit else None,
        _hit_text(paper.is_hit),
    )


def parent_name(descent: Descent) -> str | None:
    """Return the name of a submission's parent."""
    return None if descent.parent is None else "starter" if descent.parent == STARTER else str(descent.parent)


def remark(descent: Descent) -> str:
    """Return the remarks on a submission's edit."""
    remarks = [
        ("declared parent", descent.is_declared),
        ("broken", descent.is_broken),
        (f"mended by {descent.mended_by}", descent.mended_by is not None),
        ("acts by episode", descent.acts_by_episode),
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
