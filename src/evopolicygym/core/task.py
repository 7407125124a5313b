"""A task: an environment with a budget of episodes and limits, as an agent meets it. It holds no seed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from evopolicygym.core.environment import EnvironmentSpec, TaskText
from evopolicygym.core.errors import RefusalStatus, RequestRefused, UsageError
from evopolicygym.core.feedback import FeedbackProfile

TRAIN_CASES, VALIDATION_CASES, HELD_OUT_CASES = 1024, 64, 256
"""How many cases each split holds; a run uses the first so many of the hidden ones."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a policy may use. Reaching one is a policy failure of that episode."""

    load_s: float = 30.0
    """Seconds of processor time, all threads together, for import plus construction. Of this limit and the next three,
    three times as many seconds may pass, without those in which the policy waits for a processor."""
    reset_s: float = 10.0
    """Seconds of processor time for ``reset``."""
    act_s: float = 5.0
    """Seconds of processor time for one ``act``."""
    episode_s: float = 600.0
    """Seconds of processor time for a whole episode, loading included; the environment's time doesn't count."""
    memory_mb: int = 2048
    """Address space of the policy's process, in MiB, the interpreter and its libraries included."""
    output_kb: int = 64
    """KiB kept of stdout, and as many of stderr, for each episode."""
    checkpoint_mb: int = 64
    """Total size of ``system/``, in MiB."""
    checkpoint_files: int = 2000
    """Files in ``system/``."""

    def __post_init__(self) -> None:
        """Refuse limits that nothing could keep to."""
        for name, value in self._values.items():
            if not 0 < value < math.inf:
                raise UsageError(f"Invalid policy limit {name}: expected a finite number above 0, got {value}.")

    @property
    def changed(self) -> dict[str, float]:
        """The limits that aren't at their default, by name."""
        return {one.name: self._values[one.name] for one in fields(self) if self._values[one.name] != one.default}

    @property
    def _values(self) -> dict[str, float]:
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, slots=True)
class BudgetRule:
    """How many train episodes a run may spend, and in what portions."""

    episodes: int = 128
    min_per_submission: int = 1
    max_per_submission: int | None = None
    """None: no more than what is left."""
    max_submissions: int | None = None
    """The run closes when so many are played; None: as many as the episodes are enough for."""

    def __post_init__(self) -> None:
        """Refuse a budget that nothing could be submitted under."""
        if self.episodes < 1:
            raise UsageError(f"Invalid budget: expected at least 1 episode, got {self.episodes}.")
        if not 1 <= self.min_per_submission <= self.most:
            raise UsageError(
                f"Invalid episodes per submission: expected 1 <= min_episodes <= max_episodes <= budget, got "
                f"{self.min_per_submission}, {self.most} and {self.episodes}."
            )
        if self.max_submissions is not None and self.max_submissions < 1:
            raise UsageError(f"Invalid max_submissions: expected at least 1, got {self.max_submissions}.")

    @property
    def most(self) -> int:
        """The most episodes that one submission may ask for while nothing is spent."""
        return self.episodes if self.max_per_submission is None else min(self.max_per_submission, self.episodes)

    def submissions_left(self, made: int) -> int | None:
        """Return how many submissions may follow so many; None where only the episodes limit them."""
        return None if self.max_submissions is None else self.max_submissions - made

    def check(self, asked: int, remaining: int) -> None:
        """Raise ``RequestRefused`` where ``asked`` episodes can't be charged with ``remaining`` left.

        What is left below the minimum may still be spent whole: no rule makes a run impossible to end.
        """
        least = min(self.min_per_submission, remaining)
        if asked > remaining:
            raise RequestRefused(
                RefusalStatus.BUDGET_INVALID, f"{asked} episodes requested; only {remaining} are left."
            )
        if asked > self.most:
            raise RequestRefused(
                RefusalStatus.BUDGET_INVALID,
                f"{asked} episodes requested; one submission may play at most {self.most}.",
            )
        if asked < least:
            raise RequestRefused(
                RefusalStatus.BUDGET_INVALID,
                f"{asked} episodes requested; one submission must play at least {least}.",
            )


@dataclass(frozen=True, slots=True)
class Task:
    """An environment plus budget and limits."""

    environment: EnvironmentSpec
    budget: BudgetRule = field(default_factory=BudgetRule)
    validation_cases: int = 16
    held_out_cases: int = 32
    train_cases: int = TRAIN_CASES
    """How many train cases an agent may name."""
    limits: Limits = field(default_factory=Limits)
    feedback: FeedbackProfile = FeedbackProfile.FULL
    finish_allowed: bool = False
    """Whether an agent may leave budget unspent by asking to finish."""
    films: int = 0
    """How many films of its train episodes an agent may ask for."""
    policy_packages: tuple[str, ...] = ()
    """Distributions that policies may import besides those that all may, by normalised names, sorted."""
    choices: Mapping[str, Any] = field(default_factory=dict)
    """Options that runs must agree in and that are no field of their own, by name; none that is at its default."""

    @property
    def text(self) -> TaskText:
        """How much the environment's texts say; the environment holds those that are shown."""
        return TaskText.TERSE if self.choices.get("text") == TaskText.TERSE else TaskText.FULL

    def __post_init__(self) -> None:
        """Refuse a profile that no split can serve."""
        for what, asked, most in (
            ("validation cases", self.validation_cases, VALIDATION_CASES),
            ("held-out cases", self.held_out_cases, HELD_OUT_CASES),
            ("train cases", self.train_cases, TRAIN_CASES),
        ):
            if not 1 <= asked <= most:
                raise UsageError(f"Invalid number of {what}: expected 1 to {most}, got {asked}.")
        if self.films < 0:
            raise UsageError(f"Invalid films: expected an integer from 0, got {self.films}.")
        if self.films and self.feedback is not FeedbackProfile.FULL:
            raise UsageError(
                f"Films need the feedback profile {FeedbackProfile.FULL}, got {self.films} films with {self.feedback}."
            )
