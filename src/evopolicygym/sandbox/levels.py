"""The choice of a sandbox backend: by name, or the strongest that works here.

A backend that needs a missing feature is used only if the user allows that; the recorded isolation then says so.
``auto`` tries the backends of this package only, those with most guarantees first, and otherwise by name. A backend of
another package must be named, since its guarantees are only declared.
"""

import ctypes
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from evopolicygym.core.errors import SandboxError, UnknownName
from evopolicygym.core.options import AUTO
from evopolicygym.core.registry import Registry
from evopolicygym.core.rollout import WEAKER, Isolation
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
    """A backend that works here."""

    name: str
    backend: Backend
    findings: Mapping[str, str]
    """What it enforces, and why it was chosen."""
    isolation: str
    """The isolation for the run's record: the backend and its missing features."""


def lacking(feature: SandboxFeature) -> str:
    """Return why this machine lacks a feature and how to get it; empty if it has it."""
    if feature is SandboxFeature.SECCOMP and policy_filter() is None:
        return "libseccomp is not installed: the system's package libseccomp2 (libseccomp on Fedora and Arch) brings it"
    if feature is SandboxFeature.LANDLOCK and not landlock_version():
        return "this kernel has no Landlock, or is started without it: Linux has it from 5.13 on (lsm=landlock)"
    return ""


def landlock_version() -> int:
    """Return the kernel's version of Landlock; 0 without Landlock."""
    return max(0, int(ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, WHICH_VERSION)))


def choose(asked: str, lacks: Callable[[SandboxFeature], str] = lacking) -> ChosenBackend:
    """Return the backend that ``asked`` names; for ``auto``, the strongest that works here.

    ``lacks`` returns why this machine lacks a feature. Raises ``UnknownName`` and ``SandboxError``.
    """
    isolation = resolve_isolation(asked)
    name, allowed = isolation.backend, isolation.missing
    if name != AUTO:
        return _try_backend(name, _backend(name), allowed, lacks, {"chosen": "asked for by name"})
    refused: dict[str, SandboxError] = {}
    for candidate, backend in _strongest_first():
        try:
            why = {"chosen": "the strongest that works here", **_fallback(backend, refused)}
            return _try_backend(candidate, backend, allowed, lacks, why)
        except SandboxError as error:
            refused[candidate] = error
    raise SandboxError("No isolation level works here: " + " ".join(map(str, refused.values())))


def _fallback(backend: Backend, refused: Mapping[str, SandboxError]) -> dict[str, str]:
    """Return findings on why stronger backends were refused, and on what is not guaranteed instead."""
    if not refused:
        return {}
    lost = sorted(frozenset().union(*(_backend(name).guarantees for name in refused)) - backend.guarantees)
    enclosed = Guarantee.PROGRAM_ENCLOSED in lost
    program = " An agent's program is not enclosed: it has this user's files and network." if enclosed else ""
    reasons = " ".join(map(str, refused.values()))
    return {
        **{f"not {name}": str(error) for name, error in refused.items()},
        WEAKER: f"{reasons} Not guaranteed without it: {', '.join(lost) or 'nothing more'}.{program}",
    }


def resolve_isolation(asked: str) -> Isolation:
    """Parse an isolation; raise ``UnknownName`` for an unknown backend or feature."""
    isolation = Isolation.parse(asked)
    name = isolation.backend
    if name != AUTO and ":" not in name and name not in BACKENDS.names():
        raise UnknownName(BACKENDS.kind, name, [*BACKENDS.names(), AUTO])
    parse_features(isolation.missing)
    return isolation


def parse_features(features: Collection[str]) -> frozenset[SandboxFeature]:
    """Return the features of these names; raise ``UnknownName`` for an unknown one."""
    if unknown := sorted(set(features) - set(SandboxFeature)):
        raise UnknownName("feature", unknown[0], list(SandboxFeature))
    return frozenset(map(SandboxFeature, features))


def guarantees(isolation: str) -> frozenset[Guarantee]:
    """Return the guarantees of the backend of an isolation, given as text."""
    return _backend(resolve_isolation(isolation).backend).guarantees


def program_sandbox(isolation: str) -> ProgramSandbox:
    """Return the sandbox for an agent's program with an isolation, given as text.

    Raises ``SandboxError`` if the backend has no sandbox for programs, unless the isolation allows that.
    """
    asked = resolve_isolation(isolation)
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
    """Return the backends that ``auto`` tries, with their names: those of this package with any guarantee."""
    own = [name for name in BACKENDS.names() if name not in BACKENDS.installed()]
    backends = [(name, backend) for name in own if (backend := _backend(name)).guarantees]
    return sorted(backends, key=lambda item: (-len(item[1].guarantees), item[0]))


def _try_backend(
    name: str,
    backend: Backend,
    allowed: Collection[str],
    lacks: Callable[[SandboxFeature], str],
    why: Mapping[str, str],
) -> ChosenBackend:
    findings = backend.findings()
    missing = {feature: reason for feature in sorted(backend.required_features) if (reason := lacks(feature))}
    for feature in missing.keys() - allowed:
        raise SandboxError(
            f"Isolation {name!r} needs {feature}, which is missing here: {missing[feature]}. To play without it, pass "
            f"--allow-missing {feature}; the run is then marked {str(Isolation(name, frozenset([feature])))!r}."
        )
    if SandboxFeature.PROGRAM_SANDBOX in allowed and not isinstance(backend, ProgramBackend):
        missing[SandboxFeature.PROGRAM_SANDBOX] = "an agent's program runs with its user's rights"
    without = {f"without {feature}": f"waived: {reason}" for feature, reason in missing.items()}
    return ChosenBackend(name, backend, {**findings, **why, **without}, str(Isolation(name, frozenset(missing))))
