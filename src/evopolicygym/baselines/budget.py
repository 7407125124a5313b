"""A training's budget: so many episodes, steps or minutes."""

from dataclasses import dataclass
from enum import StrEnum

from evopolicygym.core.errors import UsageError


class Unit(StrEnum):
    """What is counted."""

    EPISODES = "episodes"
    """From reset to end, exactly: no case more is dealt."""
    STEPS = "steps"
    """Actions played in all environments together."""
    MINUTES = "minutes"
    """Of processor time, on one core: how busy the machine is otherwise changes nothing. How far they get depends on
    the processor; the steps that it was are reported afterwards."""


@dataclass(frozen=True, slots=True)
class TrainingBudget:
    """When training ends."""

    amount: float
    unit: Unit

    def __str__(self) -> str:
        """Return it in words, as it stands in an entry's name."""
        return f"{self.amount:g} {self.unit}" if self.amount != 1 else f"1 {self.unit.removesuffix('s')}"

    @property
    def episodes(self) -> int | None:
        """The most episodes that may be begun; None where they are not counted."""
        return int(self.amount) if self.unit is Unit.EPISODES else None


def budget_of(episodes: int | None, steps: int | None, minutes: float | None) -> TrainingBudget:
    """Return the one budget that was given; raise ``UsageError`` where there is none, or more than one, or nothing."""
    given = {Unit.EPISODES: episodes, Unit.STEPS: steps, Unit.MINUTES: minutes}
    found = [TrainingBudget(amount, unit) for unit, amount in given.items() if amount is not None]
    if len(found) != 1:
        named = " and ".join(map(str, found)) or "none"
        raise UsageError(f"Training expects one budget, --episodes, --steps or --minutes; got {named}.")
    if found[0].amount <= 0:
        raise UsageError(f"--{found[0].unit} expects a number above 0, got {found[0].amount:g}.")
    return found[0]
