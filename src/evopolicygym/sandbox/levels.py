"""Which backend a run gets: the one asked for by name, or the strongest that works here.

A backend one of whose walls is missing here is not used, unless the user waived that wall; then its name says so.
``auto`` takes backends of this package only, those that guarantee most first: one whose guarantees include another's
comes before it, and of others the name decides. A backend from outside is used only where it is asked for by name, as
what it declares is its author's word.
"""

import ctypes
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from evopolicygym.core.errors import SandboxError, UnknownName
from evopolicygym.core.isolation import Isolation
from evopolicygym.core.options import AUTO
from evopolicygym.core.registry import Registry
from evopolicygym.sandbox.base import Backend, Guarantee, ProgramBackend, ProgramSandbox, SandboxFeature
from evopolicygym.sandbox.program.plain import PlainPrograms
from evopolicygym.sandbox.seccomp import policy_filter

BACKENDS = Registry(
    kind="isolation level",
    package="evopolicygym.sandbox.backends",
    group="evopolicygym.sandboxes",
    attribute="Backend",
    from_outside="Backend",
)

LANDLOCK_CREATE_RULESET, WHICH_VERSION = 444, 1


@dataclass(frozen=True, slots=True)
class ChosenBackend:
    """A backend that works here, with what it can enforce and why it was taken."""

    name: str
    """By which it is asked for."""
    backend: Backend
    findings: Mapping[str, str]
    isolation: str
    """How the level is written in a record, without the walls that are missing and were waived."""


def lacking(wall: SandboxFeature) -> str:
    """Return why this machine lacks a wall, and what would work; empty where it doesn't."""
    if wall is SandboxFeature.SECCOMP and policy_filter() is None:
        return "libseccomp is not installed: pip install pyseccomp, with the system's package libseccomp2, brings it"
    if wall is SandboxFeature.LANDLOCK and not landlock_version():
        return "this kernel has no Landlock, or is started without it: Linux has it from 5.13 on (lsm=landlock)"
    return ""


def landlock_version() -> int:
    """Return the version of Landlock that the kernel has; 0 where it has none."""
    return max(0, int(ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, WHICH_VERSION)))


def choose(asked: str, lacks: Callable[[SandboxFeature], str] = lacking) -> ChosenBackend:
    """Return the backend that ``asked`` names; for ``auto``, the strongest that works here and why.

    ``lacks`` says why this machine lacks a wall. Raises ``UnknownName`` and ``SandboxError``.
    """
    isolation = named(asked)
    name, waived = isolation.backend, isolation.missing
    if name != AUTO:
        return _tried(name, _backend(name), waived, lacks, {"chosen": "asked for by name"})
    refused: dict[str, str] = {}
    for candidate, backend in _strongest_first():
        try:
            why = {"chosen": "the strongest that works here", **refused}
            return _tried(candidate, backend, waived, lacks, why)
        except SandboxError as error:
            refused[f"not {candidate}"] = str(error)
    raise SandboxError("No isolation level works here: " + " ".join(refused.values()))


def named(asked: str) -> Isolation:
    """Return the isolation that a text names; raise ``UnknownName`` for an unknown backend or feature."""
    isolation = Isolation.parse(asked)
    name = isolation.backend
    if name != AUTO and ":" not in name and name not in BACKENDS.names():
        raise UnknownName(BACKENDS.kind, name, [*BACKENDS.names(), AUTO])
    waivable(isolation.missing)
    return isolation


def waivable(walls: Collection[str]) -> frozenset[SandboxFeature]:
    """Return the walls of these names; raise ``UnknownName`` where there is none such."""
    if unknown := sorted(set(walls) - set(SandboxFeature)):
        raise UnknownName("wall to waive", unknown[0], list(SandboxFeature))
    return frozenset(map(SandboxFeature, walls))


def guarantees(isolation: str) -> frozenset[Guarantee]:
    """Return what the backend guarantees that an isolation names, as it is written in a record."""
    return _backend(named(isolation).backend).guarantees


def program_sandbox(isolation: str) -> ProgramSandbox:
    """Return what keeps an agent's program in at an isolation, as it is written in a record.

    Raises ``SandboxError`` where its backend keeps no program in, and that is not waived.
    """
    asked = named(isolation)
    name = asked.backend
    backend = _backend(name)
    if isinstance(backend, ProgramBackend):
        return backend.program_sandbox()
    if SandboxFeature.PROGRAM_SANDBOX in asked.missing:
        return PlainPrograms(confined=False)
    marked = Isolation(name, frozenset([SandboxFeature.PROGRAM_SANDBOX]))
    raise SandboxError(
        f"Isolation level {name} keeps policies in, and no agent's program: it has no program_sandbox. --isolation "
        f"auto takes a level that has one. To run the program with your own rights, ask for it by --waive "
        f"{SandboxFeature.PROGRAM_SANDBOX}, and the run is marked {str(marked)!r}."
    )


def _backend(name: str) -> Backend:
    backend: Backend = BACKENDS.load(name)()
    return backend


def _strongest_first() -> list[tuple[str, Backend]]:
    """Return what ``auto`` tries, by name: the backends of this package that guarantee anything."""
    own = [name for name in BACKENDS.names() if name not in BACKENDS.installed()]
    found = [(name, backend) for name in own if (backend := _backend(name)).guarantees]
    return sorted(found, key=lambda item: (-len(item[1].guarantees), item[0]))


def _tried(
    name: str, backend: Backend, waived: Collection[str], lacks: Callable[[SandboxFeature], str], why: Mapping[str, str]
) -> ChosenBackend:
    findings = backend.findings()
    missing = {wall: reason for wall in sorted(backend.walls) if (reason := lacks(wall))}
    for wall in missing.keys() - waived:
        raise SandboxError(
            f"Isolation level {name} promises {wall}, which is missing here: {missing[wall]}. Who accepts "
            f"less asks for it by --waive {wall}, and the run is marked {str(Isolation(name, frozenset([wall])))!r}."
        )
    if SandboxFeature.PROGRAM_SANDBOX in waived and not isinstance(backend, ProgramBackend):
        missing[SandboxFeature.PROGRAM_SANDBOX] = "an agent's program runs with its user's rights"
    without = {f"without {wall}": f"waived: {reason}" for wall, reason in missing.items()}
    return ChosenBackend(name, backend, {**findings, **why, **without}, str(Isolation(name, frozenset(missing))))
