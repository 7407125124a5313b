"""The catalog of packs: names to families of environments, read and validated from TOML.

A built-in name is a file of ``specs/packs/``. Other distributions add names through the entry-point group
``evopolicygym.packs``, as ``outside.py`` says; a path to a file is a pack too.

A file names its tasks in groups, which have all but their ids in common; texts of single ids stand in
``[texts."ID"]``, limits of single ids in ``[limits]``, anchors of single tasks in ``[anchors."NAME"]`` and why they
are hard in ``[challenges."NAME"]``, as variants of an id differ in both. How a task becomes a whole spec, whose spaces
its simulator has to say, is not here but in ``environments/description.py``.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.pack import (
    Challenge,
    Pack,
    PackTask,
    PackText,
    TaskAnchors,
    TaskWeight,
    Unavailable,
    task_name,
)
from evopolicygym.core.task import Success, TaskKind
from evopolicygym.specs.outside import SUFFIX, brought, file_of

GROUP = "evopolicygym.packs"
"""The entry-point group by which other distributions add packs."""
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*", re.ASCII)
"""What a pack may be called: its Python environment lies in a directory of that name."""


@dataclass(frozen=True, slots=True)
class _TaskGroup:
    """Tasks that differ in their ids alone."""

    ids: tuple[str, ...]
    kind: TaskKind
    variant: str = ""
    """Ends their names, where the ids have other tasks too."""
    weight: TaskWeight = TaskWeight.LIGHT
    max_steps: int | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    text: PackText = field(default_factory=PackText)
    success: Success | None = None

    def tasks(self, texts: Mapping[str, PackText], limits: Mapping[str, int]) -> Iterator[PackTask]:
        """Yield the tasks, each with the text and the limit of its own id where there is one."""
        for one in self.ids:
            yield PackTask(
                id=one,
                name=task_name(one, self.variant),
                kind=self.kind,
                weight=self.weight,
                max_steps=limits.get(one, self.max_steps),
                arguments=self.arguments,
                text=texts.get(one, self.text),
                success=self.success,
            )


@dataclass(frozen=True, slots=True)
class _PackFile:
    """A pack as its file holds it."""

    title: str
    family: str
    licence: str
    requirements: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    size_mb: int = 0
    extra: str = ""
    python: str = ">=3.11"
    tasks: tuple[_TaskGroup, ...] = ()
    limits: dict[str, int] = field(default_factory=dict)
    texts: dict[str, PackText] = field(default_factory=dict)
    anchors: dict[str, TaskAnchors] = field(default_factory=dict)
    challenges: dict[str, Challenge] = field(default_factory=dict)
    unavailable: tuple[Unavailable, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadablePack:
    """A pack of another distribution that can't be read."""

    name: str
    reason: str


def names() -> list[str]:
    """Return the name of every pack, those that ship first, then those of other distributions, each sorted."""
    shipped = _files()
    return [*sorted(shipped), *sorted(brought(GROUP).keys() - shipped.keys())]


def readable() -> list[Pack]:
    """Return all packs, in the order of ``names``, but those of other distributions that can't be read."""
    return [pack for pack in map(_load_or_none, names()) if pack]


def unreadable() -> list[UnreadablePack]:
    """Return what other distributions bring that can't be read, or is called as a pack that ships."""
    taken = [
        UnreadablePack(name, f"The pack {name!r} of {_whose(name)} is left out: a pack that ships has that name.")
        for name in sorted(brought(GROUP).keys() & _files().keys())
    ]
    return [*taken, *(UnreadablePack(name, reason) for name in names() if (reason := _why_unreadable(name)))]


def load(asked: str) -> Pack:
    """Return the pack of a name, or of a path to a ``.toml`` file, whose stem is then the name.

    Raises ``UnknownName``, or ``UsageError`` where its file can't be read as one.
    """
    return _of_file(Path(asked)) if asked.endswith(SUFFIX) else _of_name(asked)


@cache
def _of_name(name: str) -> Pack:
    if file := _files().get(name):
        return decode(file.read_text(encoding="utf-8"), name)
    if point := brought(GROUP).get(name):
        _check_name(name)
        return decode(_text(file_of(point, "pack")), name)
    raise UnknownName("pack", name, names())


def _of_file(file: Path) -> Pack:
    if file.stem in _files():
        raise UsageError(f"{file} can't be a pack: one that ships is called {file.stem!r}; another name would do.")
    _check_name(file.stem)
    return replace(decode(_text(file), file.stem), file=str(file))


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(f"A pack can't be called {name!r}: a letter, then letters, digits, - or _ would do.")


def _text(file: Traversable) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}. A TOML file with a pack was expected.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not TOML: {error}.") from error


def _load_or_none(name: str) -> Pack | None:
    try:
        return load(name)
    except UsageError:
        return None


def _why_unreadable(name: str) -> str:
    try:
        load(name)
    except UsageError as error:
        return str(error)
    return ""


def _whose(name: str) -> str:
    point = brought(GROUP)[name]
    return point.dist.name if point.dist else point.value


def decode(text: str, name: str) -> Pack:
    """Return the pack that a TOML text holds; raise ``UsageError`` with what is wrong."""
    try:
        file = decoder(_PackFile, allow_inf_nan=False).value(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"The pack {name!r} is not TOML: {error}.") from error
    except Undecodable as error:
        raise UsageError(f"The pack {name!r}: {'; '.join(map(str, error.problems))}.") from error
    tasks = tuple(task for group in file.tasks for task in group.tasks(file.texts, file.limits))
    tasks = tuple(
        replace(task, anchors=file.anchors.get(task.name), challenge=file.challenges.get(task.name)) for task in tasks
    )
    if wrong := [*_repeated(tasks), *_of_no_task(file, tasks)]:
        raise UsageError(f"The pack {name!r}: {'; '.join(wrong)}.")
    return Pack(
        name=name,
        title=file.title,
        family=file.family,
        requirements=file.requirements,
        imports=file.imports,
        packages=file.packages,
        licence=file.licence,
        size_mb=file.size_mb,
        tasks=tasks,
        extra=file.extra,
        unavailable=file.unavailable,
        python=file.python,
    )


def _repeated(tasks: tuple[PackTask, ...]) -> list[str]:
    counted = Counter(task.name for task in tasks)
    return [
        f"{name} is there {count} times; a variant tells tasks apart" for name, count in counted.items() if count > 1
    ]


def _of_no_task(file: _PackFile, tasks: tuple[PackTask, ...]) -> list[str]:
    ids, named = {task.id for task in tasks}, {task.name for task in tasks}
    given = [
        ("is a text", file.texts.keys() - ids),
        ("is a limit", file.limits.keys() - ids),
        ("are anchors", file.anchors.keys() - named),
        ("is a challenge", file.challenges.keys() - named),
    ]
    return [f"there {what} of {one}, which is none of its tasks" for what, keys in given for one in sorted(keys)]


def find(asked: str) -> tuple[Pack, PackTask] | None:
    """Return the task of a name or an id, with its pack; None where no pack has it.

    ``FILE.toml:TASK`` names a task of a file; raises ``UsageError`` where there is none.
    """
    before, _, bare = asked.rpartition(":")
    if before.endswith(SUFFIX):
        return (pack := load(before)), task_of(pack, bare)
    return find_listed(bare)


def find_listed(asked: str) -> tuple[Pack, PackTask] | None:
    """Return the task of a name or an id among packs that are listed, and thus no file's; None where none has it."""
    for pack in readable():
        if task := pack.task(asked):
            return pack, task
    return None


def task_of(pack: Pack, asked: str) -> PackTask:
    """Return a pack's task of a name or an id; raise ``UnknownName`` where it has none."""
    task = pack.task(asked)
    if task is None:
        raise UnknownName(f"task of the pack {pack.name!r}", asked, [one.name for one in pack.tasks])
    return task


def _files() -> dict[str, Traversable]:
    found = files("evopolicygym.specs.packs").iterdir()
    return {file.name.removesuffix(SUFFIX): file for file in found if file.name.endswith(SUFFIX)}
