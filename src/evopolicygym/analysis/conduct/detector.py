"""What a detector is, and how it is found.

A detector is one file of ``detectors/`` that defines ``DETECTOR``, an entry point of the group
``evopolicygym.detectors``, or ``package.module:ATTRIBUTE``. It reads what an agent did, and yields what it found.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from evopolicygym.analysis.conduct.finding import ConductFinding
from evopolicygym.analysis.conduct.material import Material
from evopolicygym.core.registry import Registry

DETECTORS = Registry(
    kind="detector",
    package="evopolicygym.analysis.conduct.detectors",
    group="evopolicygym.detectors",
    attribute="DETECTOR",
)


@dataclass(frozen=True, slots=True)
class Detector:
    """One kind of finding."""

    about: str
    """What it looks for, in a line."""
    look: Callable[[Material], Iterator[ConductFinding]]
    """Yields what it found, in the order of the material."""
