"""Which backend a run gets: the one asked for by name, or the strongest that works here."""

from collections.abc import Mapping
from dataclasses import dataclass

from evopolicygym.core.errors import SandboxError, UnknownName
from evopolicygym.core.registry import Registry
from evopolicygym.sandbox.base import Backend, Level

AUTO = "auto"
AUTO_ORDER = (Level.BUBBLEWRAP, Level.PROCESS)
"""What ``auto`` tries, strongest first. It never falls to ``none`` by itself."""
BACKENDS = Registry(
    kind="isolation level",
    package="evopolicygym.sandbox",
    group="evopolicygym.sandboxes",
    attribute="Backend",
    not_names=frozenset(
        {
            "allowed",
            "attack",
            "base",
            "cgroup",
            "host",
            "levels",
            "limits",
            "permitted",
            "seccomp",
            "view",
            "watch",
            "workplace",
        }
    ),
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A backend that works here, with what it can enforce and why it was taken."""

    backend: Backend
    findings: Mapping[str, str]


def choose(asked: str) -> Chosen:
    """Return the backend that ``asked`` names; for ``auto``, the strongest that works here and why."""
    if asked != AUTO:
        if asked not in BACKENDS.names() and ":" not in asked:
            raise UnknownName(BACKENDS.kind, asked, [*BACKENDS.names(), AUTO])
        backend: Backend = BACKENDS.load(asked)()
        return Chosen(backend, {**backend.findings(), "chosen": "asked for by name"})
    refused: dict[str, str] = {}
    for level in AUTO_ORDER:
        backend = BACKENDS.load(level.value)()
        try:
            findings = backend.findings()
        except SandboxError as error:
            refused[f"not {level}"] = str(error)
        else:
            return Chosen(backend, {**findings, "chosen": "the strongest that works here", **refused})
    raise SandboxError("No isolation level works here: " + " ".join(refused.values()))
