"""The environments that specs define: what must be equal before returns are compared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.core.world import World
from evopolicygym.specs.catalog import load, spec_sha256, success_of
from evopolicygym.specs.pack_catalog import is_shipped


@dataclass(frozen=True, slots=True)
class EnvironmentIdentity:
    """The fields of a spec that define its environment; returns are comparable only between equal environments.

    Two specs may share a name, such as ``acrobot``; shipped tables mean the specs that ship, by their fingerprints.
    """

    id: str
    """Id for ``gymnasium.make``."""
    max_steps: int
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of ``gymnasium.make``."""
    success: str = ""
    """The rule of success with its key; empty where none is declared."""
    world: World | None = None
    """None for the standard world."""
    own: str = ""
    """The fingerprint of a task of one's own; empty for the task that ships under its name, in whatever world."""

    def is_same(self, other: "EnvironmentIdentity") -> bool:
        """Return whether returns of both are comparable; rules of success count if both have one."""
        mine, theirs = (
            (environment.id, environment.max_steps, dict(environment.arguments), environment.world, environment.own)
            for environment in (self, other)
        )
        return mine == theirs and (not (self.success and other.success) or self.success == other.success)

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in sorted(self.arguments.items()))
        success = f", success by {self.success}" if self.success else ""
        world = f", in the world {self.world.name}" if self.world else ""
        own = f", a task of its own with fingerprint {self.own[:12]}" if self.own else ""
        return f"{self.id}{f' ({arguments})' if arguments else ''}, {self.max_steps} steps{success}{world}{own}"


def environment_identity(spec: EnvironmentSpec) -> EnvironmentIdentity:
    """Return the environment of a spec."""
    own = "" if is_shipped(spec) else spec_sha256(spec)
    return EnvironmentIdentity(spec.id, spec.max_steps, spec.arguments, success_of(spec.success), spec.world, own)


@cache
def shipped_identity(task: str) -> EnvironmentIdentity:
    """Return the environment of the shipped spec of a task."""
    return environment_identity(load(task))
