"""A unit in outline: all of it but the names that the project chose, and these in their order.

Outlines of a file hold for every version of a project in which the file, and which names are the project's own, are the
same: only what changed is read anew.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from evopolicygym.analysis.lineage.scopes import Name
from evopolicygym.analysis.lineage.tokens import Literal, Token
from evopolicygym.analysis.lineage.units import ProgramUnit, UnitKind, serves_annotations
from evopolicygym.analysis.syntax import LITERAL, hash_of

OWN = "own"
"""Stands for a name that the project chose."""


@dataclass(frozen=True, slots=True)
class Outline:
    """One unit."""

    kind: UnitKind
    topology: str
    """Of its tokens without own names and literals."""
    content: str
    """Of its tokens without own names."""
    names: tuple[str, ...]
    """The own names in it, in their order, as often as they stand there."""
    spelled: str
    """Of its tokens with all names and literals."""
    serves_annotations: bool


def outline(unit: ProgramUnit, own: Collection[str]) -> Outline:
    """Return a unit in outline, where these names are the project's own."""
    names = tuple(token.text for token in unit.tokens if isinstance(token, Name) and token.text in own)
    return Outline(
        kind=unit.kind,
        topology=hash_of([unit.kind.value, *_texts(unit.tokens, own, literals=False)]),
        content=hash_of([unit.kind.value, *_texts(unit.tokens, own, literals=True)]),
        names=names,
        spelled=hash_of(_texts(unit.tokens, (), literals=True)),
        serves_annotations=serves_annotations(unit),
    )


def _texts(tokens: Sequence[Token], own: Collection[str], *, literals: bool) -> list[str]:
    found: list[str] = []
    for token in tokens:
        if isinstance(token, str):
            found.append(token)
        elif isinstance(token, Literal):
            found.append(LITERAL)
            if literals:
                found += token.values
        else:
            found.append(OWN if token.text in own else f"name {token.text}")
    return found
