"""The paper's own rule of edits and hits (arXiv 2607.02440), beside which ours stands.

A submission is compared to the one before it, whatever came of that. *Structural*: the syntax tree of a Python file,
without literals and docstrings, differs; or a file with code came or went, or differs and can't be parsed.
*Parametric*: only literals or data files differ. *None*: neither. A hit is a submission that sets a new best mean on
validation, by however little. What a literal is, and how a file is read without being run, is described in
``analysis/syntax.py``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from evopolicygym.analysis.policy_files import Bundle, File, changed_paths, read_bundle
from evopolicygym.analysis.submission_history import Milestone, submission_history
from evopolicygym.records.reader import RunRecord


class PaperEdit(StrEnum):
    """What a change is, the lesser first."""

    NONE = "none"
    PARAMETRIC = "parametric"
    STRUCTURAL = "structural"


@dataclass(frozen=True, slots=True)
class PaperSubmission:
    """One submission's change to the one before it."""

    edit: PaperEdit | None
    """None for the first submission, or where one of the two checkpoints is not there."""
    changed_files: int | None
    """That came, went or differ in any byte; None where ``edit`` is."""
    is_hit: bool | None
    """Whether it set a new validation best; None where that is not known yet."""


def by_paper_rule(record: RunRecord) -> tuple[PaperSubmission, ...]:
    """Return what the paper's rule says of each of a run's submissions."""
    return tuple(_submissions(record))


def _submissions(record: RunRecord) -> Iterable[PaperSubmission]:
    before: Bundle | None = None
    for milestone in submission_history(record.state):
        after = read_bundle(record.paths.checkpoint(milestone.submission.charged.checkpoint), record.paths.root)
        yield _submission(milestone, before, after)
        before = after


def _submission(milestone: Milestone, before: Bundle | None, after: Bundle | None) -> PaperSubmission:
    if before is None or after is None:
        return PaperSubmission(None, None, milestone.is_new_best)
    return PaperSubmission(classify(before, after), len(changed_paths(before, after)), milestone.is_new_best)


def classify(before: Bundle, after: Bundle) -> PaperEdit:
    """Return what the change from one bundle to another is: the greatest that any of its files went through."""
    edits = {_edit_of(before.get(path), after.get(path)) for path in changed_paths(before, after)}
    return next((one for one in reversed(PaperEdit) if one in edits), PaperEdit.NONE)


def _edit_of(before: File | None, after: File | None) -> PaperEdit:
    """Return what the change of one file is whose bytes differ; None stands for a file that is not there."""
    is_code = any(one is not None and one.is_code for one in (before, after))
    whole = PaperEdit.STRUCTURAL if is_code else PaperEdit.PARAMETRIC
    if before is None or after is None or before.source is None or after.source is None:
        return whole
    if not (before.source.parsed and after.source.parsed):
        return whole
    if before.source.structure != after.source.structure:
        return PaperEdit.STRUCTURAL
    return PaperEdit.NONE if before.source.literals == after.source.literals else PaperEdit.PARAMETRIC
