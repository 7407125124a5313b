"""An allowance: what a user lets an agent use of models, money and time before it is ended.

What an agent's program may use of this machine is described in ``core.agent.AgentLimits``; the episode budget,
which is the task's and not the user's, in ``core/budget.py``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from evopolicygym.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class AllowanceUse:
    """What an agent has used in its turns so far."""

    cost: float = 0.0
    """US dollars, as far as they are known or assumed."""
    tokens: int = 0
    """Input and output together, as its model proxy counts, with what it assumes where a server told nothing."""
    seconds: float = 0.0
    """Wall time of its turns."""
    turns: int = 0

    def __add__(self, other: "AllowanceUse") -> "AllowanceUse":
        """Return what both used together."""
        return AllowanceUse(
            self.cost + other.cost, self.tokens + other.tokens, self.seconds + other.seconds, self.turns + other.turns
        )


def used_of(usage: Mapping[str, float], seconds: float = 0.0, turns: int = 0) -> AllowanceUse:
    """Return what a turn used, by the names that a model proxy has for it."""
    cost = usage.get("cost", 0.0) + usage.get("assumed_cost", 0.0)
    tokens = usage.get("input", 0) + usage.get("output", 0) + usage.get("assumed_tokens", 0)
    return AllowanceUse(cost, int(tokens), seconds, turns)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What an agent may use in all its turns together; None is without limit."""

    cost: float | None = None
    tokens: int | None = None
    seconds: float | None = None
    turns: int | None = None

    def __post_init__(self) -> None:
        """Refuse an allowance under which nothing could be done."""
        for name, amount in self._given():
            if not (math.isfinite(amount) and amount > 0):
                raise UsageError(f"A limit of {amount:g} {name} was asked for; it must be a number above 0.")

    @property
    def asks_usage(self) -> bool:
        """Whether it can only be kept where an agent's model is asked through a proxy that counts."""
        return self.cost is not None or self.tokens is not None

    def spent(self, used: AllowanceUse) -> str:
        """Return in a sentence which limit is reached; empty where none is."""
        for name, amount in self._given():
            if getattr(used, name) >= amount:
                return reached(name, amount)
        return ""

    def left(self, used: AllowanceUse) -> "Allowance":
        """Return what is left of it; it must not be spent."""
        return Allowance(**{name: amount - getattr(used, name) for name, amount in self._given()})

    def _given(self) -> list[tuple[str, float]]:
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        return [(name, amount) for name, amount in named if amount is not None]


def reached(name: str, amount: float) -> str:
    """Return in a sentence that a limit is reached."""
    shown = f"{amount:,.2f} USD" if name == "cost" else f"{amount:,.15g} {name}"
    return f"the limit of {shown} is reached"
