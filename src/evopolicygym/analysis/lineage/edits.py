"""The kinds of edit between two programs, the distance between them, and the paper's own rule of edits and hits.

*Identical*: no byte differs. *Cosmetic*: only the project's own names, the order of definitions, annotations, comments,
docstrings or notes differ. *Parametric*: literals or data differ as well. *Structural*: anything else.

The distance is the share of the lines of code that differ, then the number of words of data. Lines are a multiset, so
their places don't count; comments, empty lines and blanks don't count. The share is of both programs' lines, so that a
new program is not nearest to the shortest one. Programs that differ in names and order only have distance 0.

The paper's rule (arXiv 2607.02440) compares a submission to the one before it. *Structural*: the syntax tree of a
Python file without literals and docstrings differs; or a file with code came or went, or differs and can't be parsed.
*Parametric*: only literals or data files differ. *None*: neither. A hit is a submission that sets a new best validation
mean, by however little.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from evopolicygym.analysis.lineage.program import PolicyProgram
from evopolicygym.analysis.run_scores import SubmissionProgress, submission_history
from evopolicygym.analysis.source import Bundle, File, bundle_of, changed_paths
from evopolicygym.core.submission import EditKind
from evopolicygym.records.reader import RunRecord


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """The distance of two programs; compared by the share, then by words."""

    share: float
    """The share of both programs' lines that the other lacks: 0 if all are equal, 1 if none is."""
    words: int
    """The words of data that only one of both has; a file that is too large to compare counts as one."""
    lines: int
    """The lines of code that only one of both has; a changed line counts twice."""


def difference(program: PolicyProgram, other: PolicyProgram) -> Difference:
    """Return the distance of two programs."""
    if program.content == other.content:
        return Difference(0.0, 0, 0)
    lines = 0 if program.code is other.code else _apart(program.code.lines, other.code.lines)
    both = program.code.lines.total() + other.code.lines.total()
    return Difference(lines / both if both else 0.0, _words(program, other), lines)


def _words(program: PolicyProgram, other: PolicyProgram) -> int:
    changed = {path for path, _ in program.files ^ other.files} & (program.data.keys() | other.data.keys())
    return sum(max(1, _apart(program.data.get(path, Counter()), other.data.get(path, Counter()))) for path in changed)


def _apart(lines: Counter[bytes], other: Counter[bytes]) -> int:
    changed = {line for line, _ in lines.items() ^ other.items()}
    return sum(abs(lines[line] - other[line]) for line in changed)


COUNTED = (EditKind.STRUCTURAL, EditKind.PARAMETRIC)
"""Kinds of which it makes sense to ask whether they paid: the others change nothing, go back or mend."""
ASIDE = (EditKind.COSMETIC, EditKind.REVERT, EditKind.REPAIR, EditKind.NONE)
"""Kinds without a hit rate."""


def change(before: PolicyProgram, after: PolicyProgram) -> EditKind:
    """Return the kind of change between two programs: none, cosmetic, parametric or structural."""
    if before.files == after.files:
        return EditKind.NONE
    if before.content == after.content:
        return EditKind.COSMETIC
    return EditKind.PARAMETRIC if before.topology == after.topology else EditKind.STRUCTURAL


class PaperEdit(StrEnum):
    """The kinds of change by the paper's rule, the lesser first."""

    NONE = "none"
    PARAMETRIC = "parametric"
    STRUCTURAL = "structural"


@dataclass(frozen=True, slots=True)
class PaperSubmission:
    """One submission's change to the one before it."""

    edit: PaperEdit | None
    """None for the first submission, or where one of the two checkpoints is missing."""
    changed_files: int | None
    """The files that came, went or differ in any byte; None if ``edit`` is."""
    is_hit: bool | None
    """Whether it set a new validation best; None if that is not known yet."""


def by_paper_rule(record: RunRecord) -> tuple[PaperSubmission, ...]:
    """Return the paper's rule, applied to each of a run's submissions."""
    return tuple(_submissions(record))


def _submissions(record: RunRecord) -> Iterable[PaperSubmission]:
    before: Bundle | None = None
    for progress in submission_history(record.state):
        after = bundle_of(record, progress.submission.charged.checkpoint)
        yield _submission(progress, before, after)
        before = after


def _submission(progress: SubmissionProgress, before: Bundle | None, after: Bundle | None) -> PaperSubmission:
    if before is None or after is None:
        return PaperSubmission(None, None, progress.is_new_best)
    return PaperSubmission(classify(before, after), len(changed_paths(before, after)), progress.is_new_best)


def classify(before: Bundle, after: Bundle) -> PaperEdit:
    """Return the kind of change from one bundle to another: the greatest of its files' changes."""
    edits = {_edit_of(before.get(path), after.get(path)) for path in changed_paths(before, after)}
    return next((edit for edit in reversed(PaperEdit) if edit in edits), PaperEdit.NONE)


def _edit_of(before: File | None, after: File | None) -> PaperEdit:
    """Return the kind of change of a file whose bytes differ; None stands for a missing file."""
    is_code = any(version is not None and version.is_code for version in (before, after))
    whole = PaperEdit.STRUCTURAL if is_code else PaperEdit.PARAMETRIC
    if before is None or after is None or before.source is None or after.source is None:
        return whole
    if not (before.source.parsed and after.source.parsed):
        return whole
    if before.source.structure != after.source.structure:
        return PaperEdit.STRUCTURAL
    return PaperEdit.NONE if before.source.literals == after.source.literals else PaperEdit.PARAMETRIC
