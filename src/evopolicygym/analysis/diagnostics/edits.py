"""What agents change from one submission to the next, and which kind of change sets a new best.

*Structural*: the syntax tree of a Python file, without literals and docstrings, differs; or a file with code came or
went, or differs and can't be parsed. *Parametric*: only literals or data files differ. *None*: neither. What a literal
is, and how a file is read without being run, is described in ``analysis/syntax.py``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from evopolicygym.analysis.diagnostic import Diagnostic, share
from evopolicygym.analysis.policy_files import Bundle, File, changed_paths, read_bundle
from evopolicygym.analysis.submission_history import Milestone, submission_history
from evopolicygym.analysis.tables.table import Cell, Table, table_of
from evopolicygym.records.reader import RunRecord


class Edit(StrEnum):
    """What a change is, the lesser first."""

    NONE = "none"
    PARAMETRIC = "parametric"
    STRUCTURAL = "structural"


@dataclass(frozen=True, slots=True)
class SubmissionEdit:
    """One submission's change to the one before it."""

    submit_index: int
    edit: Edit | None
    """None for the first submission, or where one of the two checkpoints is not there."""
    changed_files: int | None
    """That came, went or differ in any byte; None where ``edit`` is."""
    validation_mean: float | None
    is_hit: bool | None
    """Whether it set a new validation best; None where that is not known yet."""


@dataclass(frozen=True, slots=True)
class Hits:
    """How many edits of one kind there were, among those of which it is known what they were worth."""

    edits: int
    hits: int

    @property
    def rate(self) -> float | None:
        """The share that set a new validation best; None where there was no such edit."""
        return share(self.hits, self.edits)


@dataclass(frozen=True, slots=True)
class Edits:
    """One run's changes."""

    submissions: tuple[SubmissionEdit, ...]
    hits: Mapping[str, Hits]
    """By kind of edit."""


def classify(before: Bundle, after: Bundle) -> Edit:
    """Return what the change from one bundle to another is: the greatest that any of its files went through."""
    edits = {_edit_of(before.get(path), after.get(path)) for path in changed_paths(before, after)}
    return next((one for one in reversed(Edit) if one in edits), Edit.NONE)


def _edit_of(before: File | None, after: File | None) -> Edit:
    """Return what the change of one file is whose bytes differ; None stands for a file that is not there."""
    whole = Edit.STRUCTURAL if any(one is not None and one.is_code for one in (before, after)) else Edit.PARAMETRIC
    if before is None or after is None or before.source is None or after.source is None:
        return whole
    if not (before.source.parsed and after.source.parsed):
        return whole
    if before.source.structure != after.source.structure:
        return Edit.STRUCTURAL
    return Edit.NONE if before.source.literals == after.source.literals else Edit.PARAMETRIC


def measure(record: RunRecord) -> Edits:
    """Return a run's changes."""
    found, before = [], None
    for milestone in submission_history(record.state):
        after = read_bundle(record.paths.checkpoint(milestone.submission.charged.checkpoint), record.paths.root)
        found.append(_submission(milestone, before, after))
        before = after
    return Edits(tuple(found), {kind.value: _hits(found, kind) for kind in reversed(Edit)})


def _submission(milestone: Milestone, before: Bundle | None, after: Bundle | None) -> SubmissionEdit:
    known = (before, after) if before is not None and after is not None else None
    return SubmissionEdit(
        submit_index=milestone.submission.index,
        edit=classify(*known) if known else None,
        changed_files=len(changed_paths(*known)) if known else None,
        validation_mean=milestone.validation.mean if milestone.validation else None,
        is_hit=milestone.is_new_best,
    )


def _hits(submissions: Sequence[SubmissionEdit], kind: Edit) -> Hits:
    own = [one for one in submissions if one.edit is kind and one.is_hit is not None]
    return Hits(len(own), sum(one.is_hit is True for one in own))


def table(edits: Edits) -> Table:
    """Return the change of each submission."""
    columns = ("submission", "edit", "changed files", "validation", "new best")
    rows = tuple(
        (
            one.submit_index,
            one.edit.value if one.edit else None,
            one.changed_files,
            one.validation_mean,
            {None: None, True: "yes", False: ""}[one.is_hit],
        )
        for one in edits.submissions
    )
    return table_of("edits", columns, rows)


def summary(runs: Sequence[Edits]) -> Mapping[str, Cell]:
    """Return edits and hit rates by kind of edit, over all edits of all runs."""
    cells: dict[str, Cell] = {}
    for kind in reversed(Edit):
        own = [run.hits[kind.value] for run in runs]
        total = Hits(sum(one.edits for one in own), sum(one.hits for one in own))
        cells |= {kind.value: total.edits, f"{kind.value} hits": total.hits, f"{kind.value} hit rate": total.rate}
    return cells


DIAGNOSTIC = Diagnostic(measure, table, summary)
