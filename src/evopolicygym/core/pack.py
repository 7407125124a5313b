"""A pack: a family of environments as data, how it is installed and played, and the record of its check."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from evopolicygym.core.task import Anchor, Success, TaskKind
from evopolicygym.core.world import World


class TaskWeight(StrEnum):
    """What an episode of a task costs, in processor time and memory."""

    LIGHT = "light"
    """Seconds at the most, on one core."""
    HEAVY = "heavy"
    """More, or a gigabyte of memory."""


@dataclass(frozen=True, slots=True)
class PackText:
    """What a pack says of a task besides what its simulator says; each in a few words, empty where nothing."""

    objective: str = ""
    observation: str = ""
    action: str = ""
    reward: str = ""
    termination: str = ""


class Difficulty(StrEnum):
    """What makes a task hard."""

    MEMORY = "memory"
    """What was seen has to be kept."""
    EXPLORATION = "exploration"
    """Chance hardly ever comes upon a reward."""
    LONG_HORIZON = "long horizon"
    """Hundreds of steps, or several things in order, lie between a decision and what it brings."""
    CONTACT = "contact"
    """Bodies touch, grasp or push one another."""
    LANGUAGE = "language"
    """What is to be done stands in a sentence."""
    PIXELS = "pixels"
    """The observation is a picture, or the memory behind one."""
    PARTIAL_VIEW = "partial view"
    """What matters is not all in the observation."""
    MANY_JOINTS = "many joints"
    """An action has more elements than can be tuned one by one."""
    SEVERAL_TASKS = "several tasks"
    """One policy has to do tasks that differ."""
    BALANCE = "balance"
    """A small mistake ends the episode, or what it was good for."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """Why a task is hard. No agent is shown it."""

    kinds: tuple[Difficulty, ...]
    why: str
    """In a sentence."""


class HeadroomKind(StrEnum):
    """What a whole budget comes to in a task, played by a strong agent."""

    CLIMB = "climb"
    """The best known score, but only with most of the budget: what counts is how quickly."""
    OPEN = "open"
    """Less than the best known score."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """How far what was reached in a task is from the best that is known. No agent is shown it."""

    kind: HeadroomKind
    best_known: float
    """The score that stands for 1 where scores are normalised."""
    source: str
    """Whose it is, in a sentence."""
    seconds: float
    """Of an episode of random play, on one core, its sandbox included; about."""
    first: float | None = None
    """What a policy reached that was written by hand in some minutes; None where none was tried."""
    whole_budget: float | None = None
    """What the whole budget of 128 episodes reached; None where it was not played."""


@dataclass(frozen=True, slots=True)
class TaskAnchors:
    """Mean returns of known policies in a task; the fields are those of ``EnvironmentSpec``."""

    max_steps: int
    """The limit under which they were measured: under another one they say nothing."""
    random: Anchor | None = None
    idle: Anchor | None = None
    reference: Anchor | None = None
    degenerate: Anchor | None = None
    degenerate_policy: str = ""


@dataclass(frozen=True, slots=True)
class PackTask:
    """One environment of a pack."""

    id: str
    """What gymnasium registered."""
    name: str
    """What a run calls it: the id without what no directory's name may have, then what tells variants apart."""
    kind: TaskKind
    weight: TaskWeight = TaskWeight.LIGHT
    max_steps: int | None = None
    """An episode is truncated after so many steps; None where the id is registered with a limit of its own."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of ``gymnasium.make``."""
    text: PackText = field(default_factory=PackText)
    success: Success | None = None
    """None where the environment knows no success."""
    anchors: TaskAnchors | None = None
    """None where they were not measured."""
    challenge: Challenge | None = None
    """None where nothing is said of it."""
    headroom: Headroom | None = None
    """None where the best known score was not looked for."""
    worlds: Mapping[str, World] = field(default_factory=dict)
    """Worlds that ship with it, by name."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Environments that can't be had, with the reason."""

    what: str
    """Which: a distribution, or ids of one."""
    tasks: int
    """How many, about."""
    reason: str
    ids: tuple[str, ...] = ()
    """Patterns of their ids, as in a shell, such as ``MiniHack-*``."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A family of environments, read from a file that is called as it is: ``<name>.toml``."""

    name: str
    title: str
    """Whose environments they are, in a few words."""
    family: str
    """Groups rows on the leaderboard."""
    requirements: tuple[str, ...]
    """What is installed, with exact versions where numbers depend on them: ``ale-py==0.12.1``."""
    imports: tuple[str, ...]
    """Modules whose import registers the ids."""
    packages: tuple[str, ...]
    """Distributions whose versions a run records, gymnasium and numpy aside."""
    licence: str
    """Of code and assets, where they may be had from, what is not free."""
    size_mb: int
    """Megabytes that an installation takes, about."""
    tasks: tuple[PackTask, ...]
    extra: str = ""
    """The optional dependency of ours that installs it beside us; empty where it has a Python of its own, or where it
    requires nothing besides gymnasium."""
    unavailable: tuple[Unavailable, ...] = ()
    """What of the family can't be had; a pack may have nothing else, and then can't be installed."""
    python: str = ">=3.11"
    """The versions of Python that its requirements are made for; another one than ours is looked for where ours isn't
    among them."""
    no_dependencies: tuple[str, ...] = ()
    """Distributions among the requirements that are installed without what they require themselves."""
    file: str = ""
    """The path that it was asked for by; empty where it was asked for by its name."""

    @property
    def asked_by(self) -> str:
        """What it is called on a command line: its name, or the path of its file."""
        return self.file or self.name

    @property
    def is_beside_us(self) -> bool:
        """Whether it plays on the Python that the package itself runs on."""
        return bool(self.extra) or not self.requirements

    def task(self, name: str) -> PackTask | None:
        """Return the task of a name, or the first one of an id; None where there is none."""
        exact = (one for one in self.tasks if one.name == name)
        return next(exact, None) or next((one for one in self.tasks if one.id == name), None)


def task_name(gymnasium_id: str, variant: str = "") -> str:
    """Return what a run calls an id: ``ALE/Pong-v5`` is ``ALE-Pong-v5``, its variant ``ram`` ``ALE-Pong-v5-ram``."""
    bare = re.sub(r"[^A-Za-z0-9._-]+", "-", gymnasium_id.rpartition(":")[2]).strip("-.")
    return f"{bare}-{variant}" if variant else bare


def distribution_name(requirement: str) -> str:
    """Return the normalised name of a requirement's distribution: gymnasium for ``gymnasium[mujoco]==1.3.0``."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9_.-]", requirement)[0]).lower()


@dataclass(frozen=True, slots=True)
class CheckedTask:
    """What came of one task of a pack."""

    name: str
    id: str
    ok: bool
    wrong: str = ""
    """What failed, in words; empty where nothing did."""
    repeats: bool | None = None
    """Whether two resets and the same actions repeat bit for bit; None where it couldn't be played."""
    steps_per_second: int | None = None
    """Of the environment alone, in processor time."""
    random_mean: float | None = None
    """Mean return of the whole episodes of random actions; None where there was time for none."""
    random_episodes: int = 0
    """How many of them there were."""
    episode_seconds: float | None = None
    """Processor time of such an episode, making and resetting the environment included; the first is left out."""
    memory_mb: int | None = None
    """Peak memory of the process, in megabytes."""
    idle_mean: float | None = None
    """The same of idle play; None where there was time for none, or where no action is idle."""
    max_steps: int | None = None
    """An episode is truncated after so many steps."""
    observation: str = ""
    """The space of observations in a few words."""
    action: str = ""
    """The space of actions in a few words."""
    left: tuple[str, ...] = ()
    """Files that stay when its process has ended."""


@dataclass(frozen=True, slots=True)
class PackRecord:
    """What ``packs check`` found of a pack, task by task."""

    pack: str
    evopolicygym: str
    """Our version."""
    date: str
    """The day on which the last of its tasks was played, as 2026-11-23."""
    processor: str
    requirements: tuple[str, ...]
    """What the pack named then."""
    versions: Mapping[str, str]
    """Of Python, and of the distributions that numbers depend on, by name."""
    tasks: tuple[CheckedTask, ...]

    def task(self, name: str) -> CheckedTask | None:
        """Return what came of a task; None where it wasn't played."""
        return next((one for one in self.tasks if one.name == name), None)
