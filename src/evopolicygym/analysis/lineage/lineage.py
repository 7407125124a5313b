"""A run's lineage: of each submission its parent, what kind of edit it was, and what came of it.

The kinds, in the order in which they are looked for:

- *none*: the same bytes as the submission before.
- *revert*: the program of an earlier submission that could be loaded, or of the starter, but not of the one before.
- *cosmetic*: the program of the submission before, under other names, in another order, or with other notes.
- *repair*: the submission before was broken (it could not be loaded, or failed in all its episodes by an exception),
  and this one is no farther from it than from its own parent: it goes on with that edit.
- else what lies between the parent and it: *cosmetic*, *parametric* or *structural* (``edit_kind.py``).

An edit that was broken and its repairs are one edit: it has the kind of what could first be parsed of it, and is worth
what the repaired policy is worth. An edit is a *hit* where that is a real gain (``gain.py``) over its parent and over
the best so far. Of kinds that change nothing, go back or mend it isn't asked whether they paid; nor of a policy that
acts by the number of the episode, whose worth is that of several programs mixed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from evopolicygym.analysis.lineage.edit_kind import COUNTED, EditKind, change
from evopolicygym.analysis.lineage.family import Family
from evopolicygym.analysis.lineage.gain import Gain, gain
from evopolicygym.analysis.lineage.program import PolicyProgram, read_program
from evopolicygym.analysis.lineage.starter import starter
from evopolicygym.analysis.submission_history import Milestone, submission_history
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError
from evopolicygym.core.run import RunState
from evopolicygym.core.submission import STARTER, Setting
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord


@dataclass(frozen=True, slots=True)
class Descent:
    """One submission: where it came from and what came of it."""

    submit_index: int
    parent: int | None
    """Its number, or -1 for the starter; None where the files of either are not there."""
    is_declared: bool
    """Whether the agent said so."""
    edit: EditKind | None
    """What kind it is; None where ``parent`` is."""
    changed_lines: int | None
    """Lines of code that it or its parent has and the other lacks."""
    topology: int | None
    """The number of its program without literals, in the order of first appearance; None where it can't be parsed."""
    preserved: float | None
    """The share of its parent's functions and methods that it has too, unchanged; None where the parent has none."""
    acts_by_episode: bool
    """Whether what it does may hang on which episode it plays, of several."""
    spent: int
    """Episodes charged up to and with it."""
    episodes: int
    validation_mean: float | None
    mended_by: int | None = None
    """The submission that repaired it."""
    gain: Gain | None = None
    """Over its parent, on the same validation cases; of what mended it, where it was broken. None where not known."""
    gain_over_best: Gain | None = None
    """Likewise over the best checkpoint so far."""
    is_hit: bool | None = None
    """Whether both gains are real; None where that isn't known, or it is no edit of which that is asked."""
    hypothesis: str = ""
    """What the agent expected of it."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Parameters that the submission itself set."""


def lineage(record: RunRecord) -> tuple[Descent, ...]:
    """Return where each of a run's submissions came from and what came of it."""
    state = record.state
    programs = {name: _program(record.paths, name) for name in {one.charged.checkpoint for one in state.submissions}}
    family = Family(state.submissions, programs)
    topologies: dict[str, int] = {}
    found = [_descent(one, family, topologies) for one in submission_history(state)]
    found = _mended(found, family)
    worth = Worth(state, programs)
    return tuple(_judged(one, family, worth, found) for one in found)


def _program(paths: RunPaths, checkpoint: str) -> PolicyProgram | None:
    """Return a checkpoint's program; None where it is not there, or no checkpoint can be called so."""
    try:
        return read_program(paths.checkpoint(checkpoint), paths.root)
    except RecordError:
        return None


def _descent(milestone: Milestone, family: Family, topologies: dict[str, int]) -> Descent:
    submission = milestone.submission
    index, charged = submission.index, submission.charged
    parent, own = family.parent(index), family.program(index)
    before = family.program(parent.index) if parent else None
    if own and own.code.is_parsed:
        topologies.setdefault(own.topology, len(topologies))
    return Descent(
        submit_index=index,
        parent=parent.index if parent else None,
        is_declared=bool(parent and parent.is_declared),
        edit=_kind(index, parent.index, family) if parent else None,
        changed_lines=parent.difference.lines if parent else None,
        topology=topologies.get(own.topology) if own else None,
        preserved=_preserved(before, own) if before and own else None,
        acts_by_episode=bool(own and own.code.acts_by_episode) and family.plays_several(charged.checkpoint),
        spent=milestone.spent,
        episodes=len(submission.episodes),
        validation_mean=milestone.validation.mean if milestone.validation else None,
        hypothesis=charged.hypothesis,
        settings=charged.settings,
    )


def _kind(index: int, parent: int, family: Family) -> EditKind | None:
    """Return what kind of edit a submission is."""
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


def _preserved(before: PolicyProgram, after: PolicyProgram) -> float | None:
    """Return the share of a program's functions that another has too."""
    own, there = (Counter(program.code.form.functions) for program in (before, after))
    return (own & there).total() / own.total() if own else None


def _mended(found: Sequence[Descent], family: Family) -> list[Descent]:
    """Return submissions with what repaired those that were broken, and with the kind that their repair shows."""
    result: list[Descent] = []
    for at, one in enumerate(found):
        repairs = _repairs(found, at) if one.edit in COUNTED and family.is_broken(one.submit_index) else []
        whole = next((index for index in repairs if not family.is_broken(index)), None)
        result.append(replace(one, edit=_kind_of_broken(one, [one.submit_index, *repairs], family), mended_by=whole)
                      if repairs else one)  # fmt: skip
    return result


def _repairs(found: Sequence[Descent], at: int) -> list[int]:
    """Return the repairs that follow an edit at once."""
    repairs = []
    for one in found[at + 1 :]:
        if one.edit is not EditKind.REPAIR:
            break
        repairs.append(one.submit_index)
    return repairs


def _kind_of_broken(one: Descent, tries: Sequence[int], family: Family) -> EditKind | None:
    """Return what kind of edit it was whose first tries were broken: that of the first which can be parsed."""
    above = None if one.parent is None else family.program(one.parent)
    parsed = (program for index in tries if (program := family.program(index)) and program.code.is_parsed)
    first = next(parsed, None)
    return one.edit if above is None or first is None else change(above, first)


class Worth:
    """What submissions are worth on the validation cases."""

    def __init__(self, state: RunState, programs: Mapping[str, PolicyProgram | None]) -> None:
        """Take a run, and the programs of its checkpoints."""
        self._state = state
        self._starter = next((name for name, one in programs.items() if one and _is_starter(one)), None)
        self._history = submission_history(state)

    def returns(self, index: int | None) -> tuple[float, ...] | None:
        """Return a submission's validation returns by case, or the starter's; None where they are not known."""
        name = self._starter if index == STARTER else None
        if index is not None and index != STARTER:
            name = self._state.submissions[index].charged.checkpoint
        if name is None or name not in self._state.checkpoints:
            return None
        rollout = self._state.rollout(Split.VALIDATION, name)
        return None if rollout.missing else tuple(rollout.returns)

    def best_before(self, index: int) -> int | None:
        """Return the submission with the best validation mean before one; None where there is none."""
        earlier = [one for one in self._history[:index] if one.is_new_best]
        return earlier[-1].submission.index if earlier else None


def _is_starter(program: PolicyProgram) -> bool:
    return program.content == starter().content


def _judged(one: Descent, family: Family, worth: Worth, found: Sequence[Descent]) -> Descent:
    """Return a submission with what came of it."""
    played = one.submit_index if one.mended_by is None else one.mended_by
    own, above = worth.returns(played), worth.returns(one.parent)
    best = worth.returns(worth.best_before(one.submit_index))
    gains = [gain(before, own) if before and own else None for before in (above, best)]
    asked = one.edit in COUNTED and not found[played].acts_by_episode and above is not None
    is_hit = all(one is not None and one.is_real for one in gains) if own else None
    if family.never_loaded(played):
        is_hit = False
    return replace(one, gain=gains[0], gain_over_best=gains[1], is_hit=is_hit if asked else None)
