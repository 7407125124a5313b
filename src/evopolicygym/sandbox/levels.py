"""Which backend a run gets: the one asked for by name, or the strongest that works here.

A backend that needs a feature that is missing here is not used, unless the user allows that; then the recorded
isolation says so.
``auto`` takes backends of this package only, those that guarantee most first: one whose guarantees include another's
comes before it, and of others the name decides. A backend from outside is used only where it is asked for by name, as
what it declares is its author's word.
"""

import ctypes
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from evopolicygym.core.errors import SandboxError, UnknownName
from evopolicygym.core.options import AUTO
from evopolicygym.core.registry import Registry
from evopolicygym.core.rollout import Isolation
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
    """How the run directory names the backend, without the features that were allowed to be missing."""


def lacking(feature: SandboxFeature) -> str:
    """Return why this machine lacks a feature and how to get it; empty where it has it."""
    if feature is SandboxFeature.SECCOMP and policy_filter() is None:
        return "libseccomp is not installed: pip install pyseccomp, with the system's package libseccomp2, brings it"
    if feature is SandboxFeature.LANDLOCK and not landlock_version():
        return "this kernel has no Landlock, or is started without it: Linux has it from 5.13 on (lsm=landlock)"
    return ""


def landlock_version() -> int:
    """Return the version of Landlock that the kernel has; 0 where it has none."""
    return max(0, int(ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, WHICH_VERSION)))


def choose(asked: str, lacks: Callable[[SandboxFeature], str] = lacking) -> ChosenBackend:
    """Return the backend that ``asked`` names; for ``auto``, the strongest that works here and why.

    ``lacks`` says why this machine lacks a feature. Raises ``UnknownName`` and ``SandboxError``.
    """
    isolation = named(asked)
    name, allowed = isolation.backend, isolation.missing
    if name != AUTO:
        return _try_backend(name, _backend(name), allowed, lacks, {"chosen": "asked for by name"})
    refused: dict[str, str] = {}
    for candidate, backend in _strongest_first():
        try:
            why = {"chosen": "the strongest that works here", **refused}
            return _try_backend(candidate, backend, allowed, lacks, why)
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


def waivable(features: Collection[str]) -> frozenset[SandboxFeature]:
    """Return the features of these names; raise ``UnknownName`` for an unknown one."""
    if unknown := sorted(set(features) - set(SandboxFeature)):
        raise UnknownName("wall to waive", unknown[0], list(SandboxFeature))
    return frozenset(map(SandboxFeature, features))


def guarantees(isolation: str) -> frozenset[Guarantee]:
    """Return what the backend guarantees that an isolation names, as it is written in a record."""
    return _backend(named(isolation).backend).guarantees


def program_sandbox(isolation: str) -> ProgramSandbox:
    """Return what keeps an agent's program in at an isolation, as it is written in a record.

    Raises ``SandboxError`` where its backend has no sandbox for programs, and that may not be missing.
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
        f"Isolation {name!r} has a sandbox for policies, none for an agent's program (no program_sandbox). Use "
        f"--isolation auto, or pass --allow-missing {SandboxFeature.PROGRAM_SANDBOX} to run the program with your own "
        f"rights; the run is then marked {str(marked)!r}."
    )


def _backend(name: str) -> Backend:
    backend: Backend = BACKENDS.load(name)()
    return backend


def _strongest_first() -> list[tuple[str, Backend]]:
    """Return what ``auto`` tries, by name: the backends of this package that guarantee anything."""
    own = [name for name in BACKENDS.names() if name not in BACKENDS.installed()]
    found = [(name, backend) for name in own if (backend := _backend(name)).guarantees]
    return sorted(found, key=lambda item: (-len(item[1].guarantees), item[0]))


def _try_backend(
    name: str,
    backend: Backend,
    allowed: Collection[str],
    lacks: Callable[[SandboxFeature], str],
    why: Mapping[str, str],
) -> ChosenBackend:
    findings = backend.findings()
    missing = {feature: reason for feature in sorted(backend.walls) if (reason := lacks(feature))}
    for feature in missing.keys() - allowed:
        raise SandboxError(
            f"Isolation {name!r} needs {feature}, which is missing here: {missing[feature]}. To play without it, pass "
            f"--allow-missing {feature}; the run is then marked {str(Isolation(name, frozenset([feature])))!r}."
        )
    if SandboxFeature.PROGRAM_SANDBOX in allowed and not isinstance(backend, ProgramBackend):
        missing[SandboxFeature.PROGRAM_SANDBOX] = "an agent's program runs with its user's rights"
    without = {f"without {feature}": f"waived: {reason}" for feature, reason in missing.items()}
    return ChosenBackend(name, backend, {**findings, **why, **without}, str(Isolation(name, frozenset(missing))))
