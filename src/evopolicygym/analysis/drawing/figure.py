"""What a figure is, and how it is found.

A figure is one file of this room that defines ``FIGURE``, an entry point of the group ``evopolicygym.figures``, or
``package.module:ATTRIBUTE``. What it is drawn with is described in ``canvas.py``, where it goes, in the room
``report/``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evopolicygym.analysis.findings import Findings
from evopolicygym.core.registry import Registry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = Registry(
    kind="figure",
    package="evopolicygym.analysis.figures",
    group="evopolicygym.figures",
    attribute="FIGURE",
)
EXTRA = "figures"
"""The optional dependencies of ours that figures need."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """One figure: what it shows, and how it is drawn."""

    title: str
    says: str
    """What a reader sees in it: a sentence."""
    computed: str
    """How what it shows was computed: a sentence."""
    draw: "Callable[[Findings], Figure]"
    """Returns a figure of any findings, none included; a pure function."""
    needs: tuple[str, ...] = ()
    """Diagnostics that it draws."""
