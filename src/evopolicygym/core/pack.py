"""Packs: families of environments as data, with their requirements and the record of their check."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from evopolicygym.core.task import Anchor, Success, TaskKind
from evopolicygym.core.world import World

NAMESPACE = "evopolicygym"
"""The namespace of all tasks in gymnasium's registry: ``evopolicygym/<task>``."""


class TaskWeight(StrEnum):
    """How much processor time and memory an episode takes."""

    LIGHT = "light"
    """At most some seconds on one core."""
    HEAVY = "heavy"
    """More, or a gigabyte of memory."""


@dataclass(frozen=True, slots=True)
class PackText:
    """Texts about a task in addition to those of its simulator; each may be empty."""

    objective: str = ""
    observation: str = ""
    action: str = ""
    reward: str = ""
    termination: str = ""


class Difficulty(StrEnum):
    """What makes a task hard."""

    MEMORY = "memory"
    """Past observations must be remembered."""
    EXPLORATION = "exploration"
    """Random actions hardly ever find a reward."""
    LONG_HORIZON = "long horizon"
    """Hundreds of steps, or several subgoals, lie between an action and its reward."""
    CONTACT = "contact"
    """Bodies touch, grasp or push one another."""
    LANGUAGE = "language"
    """The goal is given as a sentence."""
    PIXELS = "pixels"
    """The observation is a picture, or a console's memory."""
    PARTIAL_VIEW = "partial view"
    """The observation lacks part of the relevant state."""
    MANY_JOINTS = "many joints"
    """An action has too many elements to tune one by one."""
    SEVERAL_TASKS = "several tasks"
    """One policy must solve different tasks."""
    BALANCE = "balance"
    """A small mistake ends the episode, or makes it worthless."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """Why a task is hard. Not shown to agents."""

    kinds: tuple[Difficulty, ...]
    why: str
    """In a sentence."""


class HeadroomKind(StrEnum):
    """What a strong agent reaches in a task with the whole budget."""

    CLIMB = "climb"
    """The best known score, but only with most of the budget."""
    OPEN = "open"
    """Less than the best known score."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """The best known score of a task. Not shown to agents."""

    kind: HeadroomKind
    best_known: float
    """The score that is normalised to 1."""
    source: str
    """Its source, in a sentence."""
    seconds: float
    """Approximate seconds of an episode of random play on one core, including its sandbox."""


@dataclass(frozen=True, slots=True)
class TaskAnchors:
    """Mean returns of simple policies in a task; the fields are those of ``EnvironmentSpec``."""

    max_steps: int
    """The step limit of the measurement; anchors are valid only for it."""
    random: Anchor | None = None
    idle: Anchor | None = None
    reference: Anchor | None = None
    degenerate: Anchor | None = None
    degenerate_policy: str = ""


@dataclass(frozen=True, slots=True)
class PackTask:
    """One environment of a pack."""

    id: str
    """The id registered with gymnasium."""
    name: str
    """Its name in runs: the id without characters that directory names can't have, then the variant."""
    kind: TaskKind
    weight: TaskWeight = TaskWeight.LIGHT
    max_steps: int | None = None
    """The step limit of an episode; None to use the limit registered with the id."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of ``gymnasium.make``."""
    text: PackText = field(default_factory=PackText)
    idle_action: Any = None
    """The action that does nothing, as JSON; None to guess it."""
    success: Success | None = None
    """None if the environment has no success rule."""
    anchors: TaskAnchors | None = None
    """None if not measured."""
    challenge: Challenge | None = None
    """None if not described."""
    headroom: Headroom | None = None
    """None if the best known score was not determined."""
    worlds: Mapping[str, World] = field(default_factory=dict)
    """Worlds that ship with it, by name."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Environments that are unavailable, with the reason."""

    what: str
    """A distribution, or ids of one."""
    tasks: int
    """Their approximate number."""
    reason: str
    ids: tuple[str, ...] = ()
    """Shell patterns of their ids, such as ``MiniHack-*``."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A family of environments, read from ``<name>.toml``."""

    name: str
    title: str
    """A short title."""
    family: str
    """The group of its tasks on leaderboards."""
    requirements: tuple[str, ...]
    """Requirements to install, with exact versions if results depend on them: ``ale-py==0.12.1``."""
    imports: tuple[str, ...]
    """Modules that register the ids on import."""
    packages: tuple[str, ...]
    """Distributions whose versions a run records in addition to gymnasium and numpy."""
    licence: str
    """Licences of code and assets, and what is not free."""
    size_mb: int
    """Approximate size of an installation in megabytes."""
    tasks: tuple[PackTask, ...]
    extra: str = ""
    """The extra of evopolicygym that installs it; empty if it has its own Python, or requires only gymnasium."""
    unavailable: tuple[Unavailable, ...] = ()
    """Unavailable environments of the family; a pack that has no others can't be installed."""
    python: str = ">=3.11"
    """The Python versions that its requirements support. If ours is not among them, another one is looked for."""
    no_dependencies: tuple[str, ...] = ()
    """Requirements that are installed without their dependencies."""
    file: str = ""
    """The path by which it was named; empty if it was named by its name."""

    @property
    def asked_by(self) -> str:
        """Its name on a command line: its name, or the path of its file."""
        return self.file or self.name

    @property
    def is_beside_us(self) -> bool:
        """Whether it runs in the Python environment of evopolicygym."""
        return bool(self.extra) or not self.requirements

    def task(self, name: str) -> PackTask | None:
        """Return the task with this name, or the first with this id; None if there is none."""
        exact = (task for task in self.tasks if task.name == name)
        return next(exact, None) or next((task for task in self.tasks if task.id == name), None)


def task_name(gymnasium_id: str, variant: str = "") -> str:
    """Return the name of a task: ``ALE/Pong-v5`` is ``ALE-Pong-v5``, its variant ``ram`` ``ALE-Pong-v5-ram``."""
    bare = re.sub(r"[^A-Za-z0-9._-]+", "-", gymnasium_id.rpartition(":")[2]).strip("-.")
    return f"{bare}-{variant}" if variant else bare


def distribution_name(requirement: str) -> str:
    """Return the normalised name of a requirement's distribution: gymnasium for ``gymnasium[mujoco]==1.3.0``."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9_.-]", requirement)[0]).lower()


@dataclass(frozen=True, slots=True)
class CheckedTask:
    """The result of checking a task of a pack."""

    name: str
    id: str
    ok: bool
    wrong: str = ""
    """What failed; empty if nothing did."""
    repeats: bool | None = None
    """Whether episodes with the same seed and actions are equal bit for bit; None if it couldn't be played."""
    repetitions: int | None = None
    """How many repetitions were equal, in this process and in others; None of older checks, which repeated once."""
    steps_per_second: int | None = None
    """Steps of the environment alone per second of processor time."""
    random_mean: float | None = None
    """Mean return of complete episodes of random actions; None if there were none."""
    random_episodes: int = 0
    """The number of these episodes."""
    episode_seconds: float | None = None
    """Mean processor time of these episodes, including creation and reset of the environment, without the first."""
    memory_mb: int | None = None
    """Peak memory of the process in megabytes."""
    idle_mean: float | None = None
    """Mean return of idle play; None if there was no time, or there is no idle action."""
    max_steps: int | None = None
    """The step limit of an episode."""
    observation: str = ""
    """The observation space in short."""
    action: str = ""
    """The action space in short."""
    left: tuple[str, ...] = ()
    """Files left behind by its process."""


@dataclass(frozen=True, slots=True)
class PackRecord:
    """The results of ``packs check`` for a pack."""

    pack: str
    evopolicygym: str
    """The version of evopolicygym."""
    date: str
    """The date of the last checked task, such as 2026-11-23."""
    processor: str
    requirements: tuple[str, ...]
    """The pack's requirements at the time."""
    versions: Mapping[str, str]
    """Versions of Python and of the distributions that results depend on, by name."""
    tasks: tuple[CheckedTask, ...]

    def task(self, name: str) -> CheckedTask | None:
        """Return the result of a task; None if it wasn't checked."""
        return next((task for task in self.tasks if task.name == name), None)
