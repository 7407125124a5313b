"""A run's lineage: the parent of each submission, the kind of its edit, and whether the edit paid.

A parent is declared by the agent (``./judge restore``, ``--parent``), or else is the nearest earlier submission that
could be loaded (the latest of several). The starter policy comes before all. The kinds, in the order of the tests:

- *none*: the same bytes as the submission before.
- *revert*: the program of an earlier submission that could be loaded, or of the starter, but not of the one before.
- *cosmetic*: the program of the submission before, under other names, in another order, or with other notes.
- *repair*: the submission before was broken (it could not be loaded, or failed in all its episodes by an exception),
  and this one continues that edit: it is no farther from it than from its own parent, or most of the lines that it
  adds to the parent are lines that the broken one added.
- else the change between the parent and it: *cosmetic*, *parametric* or *structural*.

A broken edit and its repairs are one edit: it has the kind and the worth of the repaired policy, or without one the
kind of the first try that can be parsed. An edit is a *hit* if it is a real gain over its parent and over the best so
far. Edits that change nothing, go back or repair are neither hits nor misses; nor are those of a policy that acts by
the number of the episode, whose worth mixes several programs.

A gain compares two checkpoints on the same validation cases, case by case. It is *real* if two tests at 5 % agree, each
of which errs by itself: the lower end of the one-sided 95 % interval of the mean difference lies above 0, which allows
for skewed differences, and fails where a few cases differ by the same amount; and at most 5 % of all ways to flip the
differences' signs have a mean as high (Fisher's randomisation test), which fewer than five differing cases can't pass:
with fewer validation cases hits are unknown.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evopolicygym.analysis.lineage.edits import COUNTED, Difference, change, difference
from evopolicygym.analysis.lineage.program import PolicyProgram, checkpoint_program, starter
from evopolicygym.analysis.ranking.bootstrap import Floats, Interval, t_quantile
from evopolicygym.analysis.run_scores import SubmissionProgress, submission_history
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError
from evopolicygym.core.rollout import FailureReason
from evopolicygym.core.run import RunState, SubmissionState
from evopolicygym.core.score import estimate
from evopolicygym.core.submission import STARTER, EditKind, SubmissionStatus
from evopolicygym.core.text import well_formed
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.rows import Edit

LEVEL = 0.05
"""The level of both tests; the reported interval has 90 %, so its lower end is that of the one-sided 95 %."""
MOST_EXACT = 28
"""Limit on the differing cases for which all flips are enumerated; with more, flips are drawn."""
DRAWN = 20_000
FEWEST_CASES = 5
"""Cases with which the test by flips can have a share of 5 % or less; with fewer, no edit can be a hit."""
SMALLEST_SKEWNESS = 1e-6
"""Skewness below this counts as none."""
ROUNDING = 1e-9
"""The share of a mean's size within which means of flipped signs count as equal."""


@dataclass(frozen=True, slots=True)
class Gain:
    """How much better a checkpoint is than another."""

    mean: float
    """The mean of the differences over cases."""
    interval: Interval | None
    """The two-sided 90 % interval of the mean; None with a single case."""
    p_value: float
    """Share of sign flips whose mean is as high."""
    cases: int

    @property
    def is_real(self) -> bool:
        """Whether it is above 0 beyond noise."""
        return self.interval is not None and self.interval.low > 0 and self.p_value <= LEVEL


def gain(before: Sequence[float], after: Sequence[float]) -> Gain | None:
    """Return the gain from a checkpoint's returns to another's on the same cases; None if a return is not a number."""
    with np.errstate(invalid="ignore", over="ignore"):
        differences = np.subtract(after, before, dtype=float)
    if not len(differences) or not np.isfinite(differences).all():
        return None
    mean = estimate(differences.tolist()).mean
    return Gain(mean, _interval(differences, mean), _p_value(differences), len(differences))


def _interval(differences: Floats, mean: float) -> Interval | None:
    """Return the 90 % interval of a mean whose differences may be skewed; None with a single case.

    Student's quantiles are transformed by the inverse of Hall's (1992) monotone cubic W + g W^2 / 3 + g^2 W^3 / 27 +
    g / (6 n), which takes the skewness g out of W = (mean - truth) / deviation. Without skewness it is Student's.
    """
    count = len(differences)
    if count == 1:
        return None
    apart = differences - mean
    variance = float(np.square(apart).mean())
    if not variance > 0:
        return Interval(mean, mean)
    skewness = float((apart**3).mean()) / variance**1.5
    reach = t_quantile(count - 1, 1 - 2 * LEVEL) / math.sqrt(count)
    deviation = math.sqrt(variance * count / (count - 1))
    low, high = (mean - deviation * _hall(sign * reach, skewness, count) for sign in (1, -1))
    return Interval(low, high)


def _hall(value: float, skewness: float, count: int) -> float:
    """Return the inverse of Hall's transformation."""
    if abs(skewness) < SMALLEST_SKEWNESS:
        return value
    return 3 / skewness * (float(np.cbrt(1 + skewness * (value - skewness / (6 * count)))) - 1)


def _p_value(differences: Floats) -> float:
    """Return the share of sign flips of the differences whose sum is at least theirs; a case without one can't flip."""
    sizes = np.abs(differences[differences != 0])
    if not sizes.size:
        return 1.0
    threshold = math.fsum(differences.tolist()) - ROUNDING * float(sizes.sum())
    if sizes.size <= MOST_EXACT:
        return float(_sums_at_least(threshold, sizes) / 2**sizes.size)
    flips = np.random.default_rng(0).integers(0, 2, (DRAWN, sizes.size))
    return float(1 + np.count_nonzero((2 * flips - 1) @ sizes >= threshold)) / (DRAWN + 1)


def _sums_at_least(threshold: float, sizes: Floats) -> int:
    """Return the number of signed sums of sizes that are at least ``due``: each is a sum of the halves' sums."""
    halves = [_signed_sums(half) for half in np.array_split(sizes, 2)]
    first, second = halves[0], np.sort(halves[1])
    return int((len(second) - np.searchsorted(second, threshold - first, side="left")).sum())


def _signed_sums(sizes: Floats) -> Floats:
    """Return all sums of sizes with either sign."""
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums - size, sums + size])
    return sums


@dataclass(frozen=True, slots=True)
class Parent:
    """The parent of a submission."""

    index: int
    """A submission's number, or ``STARTER``."""
    difference: Difference
    is_declared: bool


class Family:
    """The submissions of a run with their programs, and the starter policy before them."""

    def __init__(
        self,
        submissions: tuple[SubmissionState, ...],
        programs: Mapping[str, PolicyProgram | None],
        *,
        has_starter: bool = True,
    ) -> None:
        """Take a run's submissions, and the program of each checkpoint; None if it is missing.

        ``has_starter`` tells whether the run began with the starter policy.
        """
        self._submissions = submissions
        self._has_starter = has_starter
        self._programs = programs
        self._differences: dict[tuple[str, str], Difference] = {}

    def program(self, index: int) -> PolicyProgram | None:
        """Return the program of a submission, or of the starter; None if its files are missing."""
        return starter() if index == STARTER else self._programs[self._submissions[index].charged.checkpoint]

    def loadable_before(self, index: int) -> Iterator[int]:
        """Yield the loadable and present submissions before one, the latest first; then the starter."""
        for earlier in range(index - 1, STARTER, -1):
            if is_loadable(self._submissions[earlier]) and self.program(earlier) is not None:
                yield earlier
        if self._has_starter:
            yield STARTER

    def parent(self, index: int) -> Parent | None:
        """Return the parent of a submission; None if its own files or its parent's are missing."""
        own = self.program(index)
        declared = self._submissions[index].charged.parent
        if declared is not None:
            program = self.program(declared)
            return Parent(declared, difference(program, own), is_declared=True) if program and own else None
        if own is None:
            return None
        nearest = min(self.loadable_before(index), key=lambda earlier: self.difference(earlier, index), default=None)
        if nearest is None:
            return None
        return Parent(nearest, self.difference(nearest, index), is_declared=False)

    def difference(self, earlier: int, later: int) -> Difference:
        """Return the distance of two submissions, both of which must be present."""
        program, other = self.program(earlier), self.program(later)
        assert program is not None  # noqa: S101 - for the type checker; demanded of callers
        assert other is not None  # noqa: S101 - as above
        key = (program.content, other.content)
        if key not in self._differences:
            self._differences[key] = difference(program, other)
        return self._differences[key]

    def goes_on(self, index: int, parent: int) -> bool:
        """Return whether a submission continues the edit of the one before, which was broken.

        It does if it shares lines with it and is as near to it as to its parent. A breakage may be larger than the
        edit, as of several lines that import what isn't there: so it does as well if most of what it adds to its
        parent was in the broken submission.
        """
        before, above = self.difference(index - 1, index), self.difference(parent, index)
        if before.share < 1 and (before.share, before.words) <= (above.share, above.words):
            return True
        old, tried, own = (program.code.lines for at in (parent, index - 1, index) if (program := self.program(at)))
        added = own - old
        return 2 * (added & (tried - old)).total() > added.total()

    def returned_to(self, index: int) -> int | None:
        """Return the latest earlier submission that could be loaded and had the same program, or the starter."""
        own = self.program(index)
        content = own and own.content
        return next((earlier for earlier in self.loadable_before(index) if self._content(earlier) == content), None)

    def plays_several(self, checkpoint: str) -> bool:
        """Return whether a checkpoint is given several numbers of episodes: as many as its first submission had."""
        first = next(submission for submission in self._submissions if submission.charged.checkpoint == checkpoint)
        return len(first.episodes) > 1

    def is_broken(self, index: int) -> bool:
        """Return whether a submission could not be loaded, or failed in all its episodes by an exception."""
        return index != STARTER and is_broken(self._submissions[index])

    def never_loaded(self, index: int) -> bool:
        """Return whether it is settled that a submission could not be loaded."""
        submission = self._submissions[index]
        return submission.published is not None and submission.status is not SubmissionStatus.OK

    def _content(self, index: int) -> str | None:
        program = self.program(index)
        return program.content if program else None


def is_loadable(submission: SubmissionState) -> bool:
    """Return whether a submission's policy was constructed: it has played, or plays."""
    if submission.status is SubmissionStatus.INTERRUPTED:
        return any(submission.episodes)
    return submission.status is SubmissionStatus.OK


def is_broken(submission: SubmissionState) -> bool:
    """Return whether a submission could not be loaded, or failed in all its episodes by an exception."""
    if submission.published is None:
        return False
    failed = [episode is not None and episode.failure is not None and episode.failure.reason is FailureReason.ERROR
              for episode in submission.episodes]  # fmt: skip
    return submission.status is not SubmissionStatus.OK or all(failed)


_last: list[tuple[RunRecord, tuple[Edit, ...]]] = []
"""The record that was read last, with its lineage: several diagnostics need it one after the other."""


def lineage(record: RunRecord) -> tuple[Edit, ...]:
    """Return the edit of each of a run's submissions."""
    for known, edits in _last[:1]:
        if known is record:
            return edits
    edits = _lineage(record)
    _last[:] = [(record, edits)]
    return edits


def _lineage(record: RunRecord) -> tuple[Edit, ...]:
    state = record.state
    checkpoints = {submission.charged.checkpoint for submission in state.submissions}
    programs = {name: _program(record, name) for name in checkpoints}
    family = Family(state.submissions, programs, has_starter=state.opened.task.environment.is_known)
    topologies: dict[str, int] = {}
    history = submission_history(state)
    edits = [_edit(state.opened.run_id, progress, family, topologies) for progress in history]
    edits = _attach_repairs(edits, family)
    worth = Worth(state, programs, history)
    return tuple(_attach_gains(edit, family, worth, edits) for edit in edits)


def _program(record: RunRecord, checkpoint: str) -> PolicyProgram | None:
    """Return a checkpoint's program; None if it is missing, or the name is invalid."""
    try:
        return checkpoint_program(record, checkpoint)
    except RecordError:
        return None


def _edit(run_id: str, progress: SubmissionProgress, family: Family, topologies: dict[str, int]) -> Edit:
    submission = progress.submission
    index, charged = submission.index, submission.charged
    parent, own = family.parent(index), family.program(index)
    before = family.program(parent.index) if parent else None
    if own and own.code.is_parsed:
        topologies.setdefault(own.topology, len(topologies))
    return Edit(
        run_id=run_id,
        submission=index,
        checkpoint=charged.checkpoint,
        parent=parent.index if parent else None,
        is_declared=bool(parent and parent.is_declared),
        edit_kind=_kind(index, parent.index, family) if parent else None,
        hypothesis=well_formed(charged.hypothesis) or None,
        settings=charged.settings,
        changed_lines=parent.difference.lines if parent else None,
        preserved=_preserved_share(before, own) if before and own else None,
        topology=topologies.get(own.topology) if own else None,
        acts_by_episode=bool(own and own.code.acts_by_episode) and family.plays_several(charged.checkpoint),
        is_broken=family.is_broken(index),
        mended_by=None,
        episodes=len(submission.episodes),
        spent=progress.spent,
        train_mean=estimate(submission.returns).mean if submission.returns else None,
        validation_mean=progress.validation.mean if progress.validation else None,
        paired_gain=None,
        paired_gain_low=None,
        paired_gain_high=None,
        paired_cases=None,
        is_hit=None,
    )


def _kind(index: int, parent: int, family: Family) -> EditKind | None:
    """Return the kind of edit of a submission."""
    own, before, above = family.program(index), family.program(index - 1), family.program(parent)
    if own is None or above is None:
        return None
    if before and own.files == before.files:
        return EditKind.NONE
    if before and own.content == before.content:
        return EditKind.COSMETIC
    if family.returned_to(index) is not None:
        return EditKind.REVERT
    if before and family.is_broken(index - 1) and family.goes_on(index, parent):
        return EditKind.REPAIR
    return change(above, own)


def _preserved_share(before: PolicyProgram, after: PolicyProgram) -> float | None:
    """Return the share of a program's functions that another has too."""
    own, there = (Counter(program.code.form.functions) for program in (before, after))
    return (own & there).total() / own.total() if own else None


def _attach_repairs(edits: Sequence[Edit], family: Family) -> list[Edit]:
    """Return edits with the repairs of the broken ones, and with the kind of edit that the repair shows."""
    result: list[Edit] = []
    for at, edit in enumerate(edits):
        repairs = _repairs(edits, at) if edit.edit_kind in COUNTED and family.is_broken(edit.submission) else []
        whole = next((index for index in repairs if not family.is_broken(index)), None)
        if repairs:
            kind = _kind_of_broken(edit, [edit.submission, *repairs], family)
            edit = replace(edit, edit_kind=kind, mended_by=whole)  # noqa: PLW2901 - the same edit, with its repair
        result.append(edit)
    return result


def _repairs(edits: Sequence[Edit], at: int) -> list[int]:
    """Return the repairs that follow an edit at once."""
    repairs = []
    for edit in edits[at + 1 :]:
        if edit.edit_kind is not EditKind.REPAIR:
            break
        repairs.append(edit.submission)
    return repairs


def _kind_of_broken(edit: Edit, tries: Sequence[int], family: Family) -> EditKind | None:
    """Return the kind of an edit whose first tries were broken: that of the try that works, or of the first parsed."""
    above = None if edit.parent is None else family.program(edit.parent)
    whole = [index for index in tries if not family.is_broken(index)]
    parsed = (program for index in (*whole, *tries) if (program := family.program(index)) and program.code.is_parsed)
    shown = next(parsed, None)
    return edit.edit_kind if above is None or shown is None else change(above, shown)


class Worth:
    """The worth of submissions on the validation cases."""

    def __init__(
        self, state: RunState, programs: Mapping[str, PolicyProgram | None], history: Sequence[SubmissionProgress]
    ) -> None:
        """Take a run, the programs of its checkpoints, and its submissions."""
        self._state = state
        self._starter = next((name for name, program in programs.items() if program and _is_starter(program)), None)
        best: int | None = None
        self._best_before: list[int | None] = []
        for progress in history:
            self._best_before.append(best)
            best = progress.submission.index if progress.is_new_best else best

    def returns(self, index: int | None) -> tuple[float, ...] | None:
        """Return a submission's validation returns by case, or the starter's; None if they are not known."""
        name = self._starter if index == STARTER else None
        if index is not None and index != STARTER:
            name = self._state.submissions[index].charged.checkpoint
        if name is None or not self._state.is_candidate(name):
            return None
        rollout = self._state.rollout(Split.VALIDATION, name)
        return None if rollout.missing else tuple(rollout.returns)

    def best_before(self, index: int) -> int | None:
        """Return the submission with the best validation mean before one; None if there is none."""
        return self._best_before[index]


def _is_starter(program: PolicyProgram) -> bool:
    return program.content == starter().content


def _attach_gains(edit: Edit, family: Family, worth: Worth, edits: Sequence[Edit]) -> Edit:
    """Return an edit with its gain, and whether it is a hit."""
    played = edit.submission if edit.mended_by is None else edit.mended_by
    own, above, best = worth.returns(played), worth.returns(edit.parent), worth.best_before(edit.submission)
    over_parent = gain(above, own) if above and own else None
    best_returns = worth.returns(best)
    over_best = over_parent if best == edit.parent else gain(best_returns, own) if best_returns and own else None
    can_be_hit = edit.edit_kind in COUNTED and not edits[played].acts_by_episode and above is not None
    is_hit = None
    if own and len(own) >= FEWEST_CASES:
        is_hit = all(gain is not None and gain.is_real for gain in (over_parent, over_best))
    if family.never_loaded(played):
        is_hit = False
    interval = over_parent.interval if over_parent else None
    return replace(
        edit,
        paired_gain=over_parent.mean if over_parent else None,
        paired_gain_low=interval.low if interval else None,
        paired_gain_high=interval.high if interval else None,
        paired_cases=over_parent.cases if over_parent else None,
        is_hit=is_hit if can_be_hit else None,
    )
