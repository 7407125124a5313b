"""A project's normal form: the same for programs that differ only in names, order, annotations, comments and notes.

Names that a project chooses itself are known by where they stand: each begins with the same colour, and in each of a
few rounds gets a new one from the units that it stands in and its places there (colour refinement, as for graphs). So
programs that differ only in their own names and in the order of their units always have one form; that two others
share one would take units that are alike in all that surrounds them. The form without literals is the *topology*.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.lineage.outline import OWN, Outline
from evopolicygym.analysis.lineage.units import UnitKind
from evopolicygym.analysis.syntax import hash_of

ROUNDS = 3
"""In how many rounds, at most, names are known by what surrounds them."""


@dataclass(frozen=True, slots=True)
class NormalForm:
    """What a project's programs are, whatever its names and its order."""

    topology: str
    """Of the programs without literals."""
    content: str
    """Of the programs with them."""
    functions: tuple[str, ...]
    """Of each function and method by itself, with its literals and the names that it has, in order."""


def normal_form(units: Sequence[Outline]) -> NormalForm:
    """Return the normal form of a project's programs."""
    met = Counter(name for unit in units for name in unit.names)
    kept = [unit for unit in units if not (unit.serves_annotations and met[unit.names[-1]] == 1)]
    return NormalForm(
        topology=_form(kept, [unit.topology for unit in kept]),
        content=_form(kept, [unit.content for unit in kept]),
        functions=tuple(sorted(unit.spelled for unit in kept if unit.kind is UnitKind.FUNCTION)),
    )


def _form(units: Sequence[Outline], outlines: Sequence[str]) -> str:
    colours = dict.fromkeys((name for unit in units for name in unit.names), OWN)
    hashes = _hashes(units, outlines, colours)
    for _ in range(ROUNDS):
        before, colours = colours, _refined(units, hashes, colours)
        hashes = _hashes(units, outlines, colours)
        if len(set(colours.values())) == len(set(before.values())):
            break  # what a further round would see, this one saw
    return hash_of(sorted(hashes))


def _refined(units: Sequence[Outline], hashes: Sequence[str], colours: Mapping[str, str]) -> dict[str, str]:
    """Return a colour for each name, by the units that it stands in and its places among the names there."""
    met: dict[str, list[str]] = defaultdict(list)
    for unit, its_hash in zip(units, hashes, strict=True):
        places: dict[str, list[int]] = defaultdict(list)
        for place, name in enumerate(unit.names):
            places[name].append(place)
        for name, where in places.items():
            met[name].append(f"{its_hash} {where}")
    return {name: hash_of([colour, *sorted(met[name])]) for name, colour in colours.items()}


def _hashes(units: Sequence[Outline], outlines: Sequence[str], colours: Mapping[str, str]) -> list[str]:
    """Return a hash for each unit: its outline, and its names as their colours.

    Names of one colour are distinguished by which of them is met first.
    """
    found = []
    for unit, its_outline in zip(units, outlines, strict=True):
        numbers: dict[str, dict[str, int]] = defaultdict(dict)
        texts = [its_outline]
        for name in unit.names:
            own = numbers[colours[name]]
            texts.append(f"{colours[name]} {own.setdefault(name, len(own))}")
        found.append(hash_of(texts))
    return found
