"""What is played under a task's name: returns of two specs that bear one name are only compared where it is the same.

A spec of anybody's may be called ``acrobot``; shipped tables mean the specs that ship by their names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from evopolicygym.core.task import EnvironmentSpec, Success, SuccessRule
from evopolicygym.specs import catalog


@dataclass(frozen=True, slots=True)
class GameIdentity:
    """The part of a spec that decides what a return is worth; what an agent is shown of it is the rest."""

    id: str
    """What ``gymnasium.make`` is given."""
    max_steps: int
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of ``gymnasium.make``."""
    success: str = ""
    """Its rule, with the key where the rule has one; empty where none is declared."""

    def is_same(self, other: "GameIdentity") -> bool:
        """Whether returns of both can be compared; what success is counts where both tell it."""
        mine, theirs = ((one.id, one.max_steps, dict(one.arguments)) for one in (self, other))
        return mine == theirs and (not (self.success and other.success) or self.success == other.success)

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in sorted(self.arguments.items()))
        success = f", success by {self.success}" if self.success else ""
        return f"{self.id}{f' ({arguments})' if arguments else ''}, {self.max_steps} steps{success}"


def game_of(spec: EnvironmentSpec) -> GameIdentity:
    """Return what a spec has played."""
    return GameIdentity(spec.id, spec.max_steps, spec.arguments, success_of(spec.success))


def success_of(success: Success | None) -> str:
    """Return how success is decided, in short; a crash in the last step aside, which returns know already."""
    if success is None:
        return ""
    rule = SuccessRule.INFO if success.rule is SuccessRule.INFO_WITHOUT_CRASH else success.rule
    return " ".join(filter(None, (rule.value, success.key)))


@cache
def game_named(task: str) -> GameIdentity:
    """Return what shipped tables mean by the name of a task: what the spec that ships under it has played."""
    return game_of(catalog.load(task))
