"""Which backend a run gets: the one asked for by name, or the strongest that works here.

A level one of whose walls is missing here is not used, unless the user waived that wall; then its name says so.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from evopolicygym.core.errors import SandboxError, UnknownName
from evopolicygym.core.isolation import parted, written
from evopolicygym.core.registry import Registry
from evopolicygym.sandbox.base import Backend, Level
from evopolicygym.sandbox.confinement.walls import Wall, lacking

AUTO = "auto"
AUTO_ORDER = (Level.BUBBLEWRAP, Level.PROCESS)
"""What ``auto`` tries, strongest first. It never falls to ``none`` by itself."""
BACKENDS = Registry(
    kind="isolation level",
    package="evopolicygym.sandbox.backends",
    group="evopolicygym.sandboxes",
    attribute="Backend",
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A backend that works here, with what it can enforce and why it was taken."""

    backend: Backend
    findings: Mapping[str, str]
    isolation: str
    """How the level is written in a record, without the walls that are missing and were waived."""


def choose(asked: str, lacks: Callable[[Wall], str] = lacking) -> Chosen:
    """Return the backend that ``asked`` names; for ``auto``, the strongest that works here and why.

    ``lacks`` says why a wall can't be had on this machine. Raises ``UnknownName`` and ``SandboxError``.
    """
    name, waived = named(asked)
    if name != AUTO:
        return _tried(BACKENDS.load(name)(), waived, lacks, {"chosen": "asked for by name"})
    refused: dict[str, str] = {}
    for level in AUTO_ORDER:
        try:
            why = {"chosen": "the strongest that works here", **refused}
            return _tried(BACKENDS.load(level.value)(), waived, lacks, why)
        except SandboxError as error:
            refused[f"not {level}"] = str(error)
    raise SandboxError("No isolation level works here: " + " ".join(refused.values()))


def named(asked: str) -> tuple[str, frozenset[Wall]]:
    """Return the level that is asked for and what is waived of it; raise ``UnknownName`` where there is none such."""
    name, walls = parted(asked)
    if name != AUTO and ":" not in name and name not in BACKENDS.names():
        raise UnknownName(BACKENDS.kind, name, [*BACKENDS.names(), AUTO])
    return name, waivable(walls)


def waivable(walls: Collection[str]) -> frozenset[Wall]:
    """Return the walls of these names; raise ``UnknownName`` where there is none such."""
    if unknown := sorted(set(walls) - set(Wall)):
        raise UnknownName("wall to waive", unknown[0], list(Wall))
    return frozenset(map(Wall, walls))


def _tried(backend: Backend, waived: Collection[Wall], lacks: Callable[[Wall], str], why: Mapping[str, str]) -> Chosen:
    findings = backend.findings()
    missing = {wall: reason for wall in sorted(backend.walls) if (reason := lacks(wall))}
    for wall in missing.keys() - waived:
        raise SandboxError(
            f"Isolation level {backend.level} promises {wall}, which is missing here: {missing[wall]}. Who accepts "
            f"less asks for it by --waive {wall}, and the run is marked {written(backend.level, [wall])!r}."
        )
    told = {f"without {wall}": f"waived: {reason}" for wall, reason in missing.items()}
    return Chosen(backend, {**findings, **why, **told}, written(backend.level, missing))
