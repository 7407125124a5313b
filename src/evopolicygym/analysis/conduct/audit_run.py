"""Looks at one run: all detectors over all that its record holds of the agent's conduct."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from evopolicygym.analysis.conduct.detector import DETECTORS, Detector
from evopolicygym.analysis.conduct.finding import ConductFinding, Grade
from evopolicygym.analysis.conduct.gather import gather
from evopolicygym.analysis.conduct.nested_commands import add_nested_commands
from evopolicygym.analysis.conduct.python_program import read_program
from evopolicygym.records.reader import RunRecord

MOST_FINDINGS = 200
"""Of one detector in one run; what follows is counted in a note."""


@dataclass(frozen=True, slots=True)
class Conduct:
    """What was found in what one agent did."""

    findings: tuple[ConductFinding, ...]
    """The gravest first."""
    commands: int
    """Of shells, that were read."""
    programs: int
    """That were read; those of the policy included."""
    notes: tuple[str, ...] = ()
    """What could not be read."""

    @property
    def counts(self) -> Mapping[Grade, int]:
        """How many findings there are of each grade."""
        counted = Counter(one.grade for one in self.findings)
        return {grade: counted[grade] for grade in Grade}


def named_detectors(names: Sequence[str] = ()) -> Mapping[str, Detector]:
    """Return detectors by their names, all where none is named; raise ``UnknownName`` for one that isn't there."""
    return {name: DETECTORS.load(name) for name in names or DETECTORS.names()}


def audit_run(record: RunRecord, detectors: Mapping[str, Detector]) -> Conduct:
    """Return what detectors find in an agent's conduct, as far as a run's record holds it."""
    material = gather(record)
    add_nested_commands(material)
    unread = sum(one.language == "python" and read_program(one) is None for one in material.programs)
    if unread:
        material.note(f"{unread} Python programs can't be parsed, or are too large, and were left out")
    found, notes = list[ConductFinding](), list(material.notes)
    for name, detector in detectors.items():
        distinct = _distinct(detector.look(material))
        if len(distinct) > MOST_FINDINGS:
            notes.append(f"{len(distinct) - MOST_FINDINGS} more findings of {name} are left out")
        found += sorted(distinct, key=lambda one: -one.grade.rank)[:MOST_FINDINGS]
    ordered = sorted(found, key=lambda one: -one.grade.rank)
    return Conduct(tuple(ordered), len(material.commands), len(material.programs), tuple(notes))


def _distinct(findings: Iterable[ConductFinding]) -> list[ConductFinding]:
    """Return findings, the same words of the same grade once, with how often they were found."""
    first: dict[tuple[str, str, str], ConductFinding] = {}
    for one in findings:
        key = (one.grade, one.what, one.words)
        known = first.get(key)
        first[key] = replace(known, times=known.times + 1) if known else one
    return list(first.values())
