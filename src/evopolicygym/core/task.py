"""A task: an environment with a budget and limits, as an agent meets it. It holds no seed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evopolicygym.core.budget import BudgetRule
from evopolicygym.core.environment import EnvironmentSpec
from evopolicygym.core.errors import UsageError
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

    def __post_init__(self) -> None:
        """Refuse a profile that no split can serve."""
        for what, asked, most in (
            ("validation cases", self.validation_cases, VALIDATION_CASES),
            ("held-out cases", self.held_out_cases, HELD_OUT_CASES),
            ("train cases", self.train_cases, TRAIN_CASES),
        ):
            if not 1 <= asked <= most:
                raise UsageError(f"{asked} {what} were requested; must be from 1 to {most}.")
        if self.films < 0:
            raise UsageError(f"{self.films} films were asked for; 0 for none, or any number of them, would work.")
        if self.films and self.feedback is not FeedbackProfile.FULL:
            raise UsageError(
                f"{self.films} films were asked for under the feedback profile {self.feedback}, which shows none; "
                f"{FeedbackProfile.FULL} does."
            )
