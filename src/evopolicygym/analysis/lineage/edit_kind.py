"""What a change from one program to another is, and what kinds of edit there are.

*Identical*: no byte differs. *Cosmetic*: only names that are the project's own, the order of definitions, annotations,
comments, docstrings or notes differ. *Parametric*: literals or data differ as well. *Structural*: anything else. How a
program's own names and its order are taken out is described in ``normal_form.py``; what stands between a submission and
others in time (reverts, repairs), in ``lineage.py``.
"""

from enum import StrEnum

from evopolicygym.analysis.lineage.program import PolicyProgram


class EditKind(StrEnum):
    """What a submission's edit is."""

    NONE = "none"
    """The same bytes as the submission before."""
    COSMETIC = "cosmetic"
    """Names, order, annotations, comments, docstrings or notes: nothing that it does."""
    REVERT = "revert"
    """A return to the program of an earlier submission, or to the starter."""
    REPAIR = "repair"
    """An edit that goes on with one that could not be loaded, or failed in all its episodes, and mends it."""
    PARAMETRIC = "parametric"
    """Literals or data: settings of the same program."""
    STRUCTURAL = "structural"
    """Another program."""


COUNTED = (EditKind.STRUCTURAL, EditKind.PARAMETRIC)
"""Kinds of which it makes sense to ask whether they paid: the others change nothing, go back or mend."""
ASIDE = (EditKind.COSMETIC, EditKind.REVERT, EditKind.REPAIR, EditKind.NONE)
"""Kinds that stand outside of hit rates."""


def change(before: PolicyProgram, after: PolicyProgram) -> EditKind:
    """Return what lies between two programs: none, cosmetic, parametric or structural."""
    if before.files == after.files:
        return EditKind.NONE
    if before.content == after.content:
        return EditKind.COSMETIC
    return EditKind.PARAMETRIC if before.topology == after.topology else EditKind.STRUCTURAL
