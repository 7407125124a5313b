"""What a training session plays: a task, an interface, a world, a text and a budget, drawn from a seed.

Every seed of a split names one session, so that training never runs out, and repeats where the seed does. Everything
comes from the seed: cases, the interface and the draws of the world. So whoever knows a seed knows its hidden cases;
agents are never told it. Splits have no task in common, and only ``benchmark`` has tasks of Core16 and frontier16.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.task import (
    BudgetRule,
    EnvironmentSpec,
    FeedbackProfile,
    Limits,
    Task,
    TaskInterface,
    TaskText,
)
from evopolicygym.core.world import STANDARD, decode_world
from evopolicygym.runs.environment import resolve_environment, resolve_world
from evopolicygym.runs.suites.suite import load_suite
from evopolicygym.specs import catalog


class TrainingSplit(StrEnum):
    """Which tasks sessions are drawn from."""

    TRAIN = "train"
    """Tasks to train agents on."""
    EVALUATION = "evaluation"
    """Tasks of the same kinds that no session of ``train`` plays."""
    BENCHMARK = "benchmark"
    """Tasks of Core16 and frontier16. An agent that was trained on them can't be measured by them."""


TASKS: Mapping[TrainingSplit, tuple[str, ...]] = {
    TrainingSplit.TRAIN: (
        "cartpole",
        "pendulum",
        "FrozenLake8x8-v1",
        "Hopper-v5",
        "Walker2d-v5",
        "MiniGrid-LavaCrossingS9N2-v0",
        "MiniGrid-Dynamic-Obstacles-16x16-v0",
        "MiniGrid-MultiRoom-N6-v0",
        "BabyAI-GoToLocal-v0",
    ),
    TrainingSplit.EVALUATION: ("MiniGrid-MemoryS17Random-v0", "BabyAI-BossLevel-v0", "racetrack-v0"),
}
"""The tasks of each split that ship with a scale; those of ``benchmark`` are the suites'."""
SUITES = ("core16", "frontier16")
LARGEST_SEED = 2**63 - 1
LEAST_BUDGET, MOST_BUDGET = 8, 64
TRAIN_CASES, VALIDATION_CASES, HELD_OUT_CASES = 64, 8, 16
LIMITS = Limits(load_s=10.0, reset_s=5.0, act_s=1.0, episode_s=60.0, checkpoint_mb=1, checkpoint_files=32)
"""Limits of a policy in training. All are far above what a policy of a page needs."""
WORLDS: Mapping[str, Mapping[str, Any]] = {
    "noisy": {"noise": {"action": {"share": 0.1}}},
    "late": {"delay": {"observation": 1}},
    "stirred": {"jitter": {"actions": 5}},
}
"""Worlds that any task can be played in."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """What sessions are drawn from. Each field lists its choices, all equally likely."""

    split: TrainingSplit = TrainingSplit.TRAIN
    tasks: tuple[str, ...] = ()
    """Tasks of the split; empty for all that ship in it."""
    interfaces: tuple[TaskInterface, ...] = tuple(TaskInterface)
    worlds: tuple[str, ...] = (STANDARD,)
    """``standard``, a name of ``WORLDS``, or a world that ships with every task."""
    texts: tuple[TaskText, ...] = tuple(TaskText)
    """Of tasks that have one text only, it is that one."""
    budgets: tuple[int, ...] = (8, 16, 32, 64)
    """Train episodes."""
    validation: int = VALIDATION_CASES
    """Hidden validation cases."""
    held_out: int = HELD_OUT_CASES
    """Hidden held-out cases."""

    def __post_init__(self) -> None:
        """Raise ``UsageError`` for a choice that can't be played, or a task of another split."""
        for name in self.tasks:
            if name not in tasks_of(self.split):
                raise UsageError(self._other_split(name))
        for what, choices in (("interfaces", self.interfaces), ("worlds", self.worlds), ("budgets", self.budgets)):
            if not choices:
                raise UsageError(f"Invalid {what}: expected at least one, got none.")
        for budget in self.budgets:
            if not LEAST_BUDGET <= budget <= MOST_BUDGET:
                raise UsageError(f"Invalid budget: expected {LEAST_BUDGET} to {MOST_BUDGET} episodes, got {budget}.")

    def _other_split(self, name: str) -> str:
        others = [split.value for split in TrainingSplit if name in tasks_of(split)]
        if not others:
            raise UnknownName(f"task of the split {self.split.value}", name, tasks_of(self.split))
        return (
            f"Invalid task {name!r}: expected one of the split {self.split.value}, got one of {others[0]}. Name that "
            f"split to play it: --split {others[0]}."
        )


@cache
def tasks_of(split: TrainingSplit) -> tuple[str, ...]:
    """Return the tasks of a split, in the order in which seeds name them."""
    if split is TrainingSplit.BENCHMARK:
        return tuple(name for suite in SUITES for name in load_suite(suite, {}).environments)
    return TASKS[split]


@dataclass(frozen=True, slots=True)
class DrawnTask:
    """What one session plays. It is for trainers; the agent sees the task's text alone."""

    seed: int
    split: TrainingSplit
    task: Task
    world: str = STANDARD
    secret: bytes = field(default=b"", repr=False)
    """From which cases, the interface and the world's draws are derived."""

    @property
    def document(self) -> dict[str, Any]:
        """Its description, for trainers."""
        return {
            "seed": self.seed,
            "split": self.split.value,
            "task": self.task.environment.name,
            "interface": self.task.interface.value,
            "world": self.world,
            "text": self.task.text.value,
            "budget": self.task.budget.episodes,
        }


def parse_seed(seed: object) -> int:
    """Return a seed; raise ``UsageError`` if it is invalid."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
        raise UsageError(f"Invalid seed: expected an integer from 0 to {LARGEST_SEED}, got {str(seed)[:60]!r}.")
    return seed


def draw(distribution: Distribution, seed: int) -> DrawnTask:
    """Return what a seed names; raise ``UsageError`` if the seed is invalid, or its task can't be played here."""
    seed = parse_seed(seed)
    secret = hashlib.sha256(f"evopolicygym training 1|{distribution.split.value}|{seed}".encode()).digest()

    def choose(what: str, choices: Sequence[Any]) -> Any:  # noqa: ANN401 - one of the choices
        digest = hmac.digest(secret, f"choice|{what}".encode(), "sha256")
        return choices[int.from_bytes(digest, "big") % len(choices)]

    name = choose("task", distribution.tasks or tasks_of(distribution.split))
    return DrawnTask(seed, distribution.split, *_task(distribution, name, choose), secret)


def _task(distribution: Distribution, name: str, choose: Callable[[str, Sequence[Any]], Any]) -> tuple[Task, str]:
    text = choose("text", distribution.texts)
    text = text if name in catalog.names() else TaskText.TERSE  # a pack's task has one text
    interface, world = choose("interface", distribution.interfaces), choose("world", distribution.worlds)
    spec = _environment(name, text)
    choices = {"text": text.value, "interface": interface.value}
    task = Task(
        _in_world(spec, name, world),
        BudgetRule(choose("budget", distribution.budgets)),
        validation_cases=distribution.validation,
        held_out_cases=distribution.held_out,
        train_cases=TRAIN_CASES,
        limits=LIMITS,
        feedback=FeedbackProfile.FULL,
        finish_allowed=True,
        choices=choices if world == STANDARD else {**choices, "world": world},
    )
    return task, world


@cache
def _environment(name: str, text: TaskText) -> EnvironmentSpec:
    """Return a task's spec; the first time, its simulator may be looked at."""
    return resolve_environment(name, text)[0]


def _in_world(spec: EnvironmentSpec, name: str, world: str) -> EnvironmentSpec:
    made = decode_world(WORLDS[world], world, "The world") if world in WORLDS else resolve_world(name, world)
    return spec if made is None else spec.in_world(made)
