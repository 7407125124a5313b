"""How kinds of edit look in figures, the same in all of them: by colour, and without it by hatch or marker."""

from collections.abc import Mapping
from dataclasses import dataclass

from evopolicygym.analysis.drawing.looks import COLOURS, GREY, HATCHES
from evopolicygym.analysis.lineage.edit_kind import ASIDE, COUNTED, EditKind

KINDS = (*COUNTED, *ASIDE)
"""In the order in which they are drawn."""


@dataclass(frozen=True, slots=True)
class EditLook:
    """How one kind of edit is drawn."""

    colour: str
    hatch: str
    """Of a bar."""
    marker: str
    """Of a point."""


EDIT_LOOKS: Mapping[EditKind, EditLook] = {
    EditKind.STRUCTURAL: EditLook(COLOURS[0], HATCHES[0], "s"),
    EditKind.PARAMETRIC: EditLook(COLOURS[4], HATCHES[1], "o"),
    EditKind.COSMETIC: EditLook(COLOURS[3], HATCHES[2], "P"),
    EditKind.REVERT: EditLook(COLOURS[2], HATCHES[4], "v"),
    EditKind.REPAIR: EditLook(COLOURS[1], HATCHES[3], "^"),
    EditKind.NONE: EditLook(GREY, HATCHES[2], "."),
}
