"""The catalog of packs: families of environments by name, read and validated from TOML, and records of their checks.

A built-in name is a file of ``specs/packs/``. Other distributions add names through the entry-point group
``evopolicygym.packs``; a path to a file is a pack too.

A file lists its tasks in groups that differ only in their ids; texts of single ids are in ``[texts."ID"]``, limits of
single ids in ``[limits]``. As variants of an id differ, anchors are in ``[anchors."NAME"]``, why a task is hard in
``[challenges."NAME"]``, how far it is from solved in ``[headroom."NAME"]``, and worlds in ``[worlds."NAME".WORLD]``.

The record of a pack's check ships in ``specs/pack_checks/<name>.json``, one line per task, so that two checks can be
compared line by line.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal

from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.pack import (
    Challenge,
    Headroom,
    Pack,
    PackRecord,
    PackTask,
    PackText,
    TaskAnchors,
    TaskWeight,
    Unavailable,
    distribution_name,
    task_name,
)
from evopolicygym.core.registry import entry_points_of
from evopolicygym.core.task import EnvironmentSpec, Success, TaskKind
from evopolicygym.core.world import World, name_world
from evopolicygym.specs.catalog import (
    SUFFIX,
    file_of,
    shipped_fingerprints,
    spec_sha256,
    success_of,
)

GROUP = "evopolicygym.packs"
"""Entry-point group of packs in other distributions."""
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*", re.ASCII)
"""Valid names of packs, which are also directory names."""


@dataclass(frozen=True, slots=True)
class _TaskGroup:
    """Tasks that differ only in their ids."""

    ids: tuple[str, ...]
    kind: Literal["tuning", "synthesis"]
    variant: str = ""
    """Suffix of their names, where the ids have other tasks too."""
    weight: TaskWeight = TaskWeight.LIGHT
    max_steps: int | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    text: PackText = field(default_factory=PackText)
    idle_action: Any = None
    success: Success | None = None

    def tasks(self, texts: Mapping[str, PackText], limits: Mapping[str, int]) -> Iterator[PackTask]:
        """Yield the tasks, each with the limit of its id, and with the text of its id completed by that of the group.

        A variant's limit and text come first, since they differ from those of the id's other tasks.
        """
        for gymnasium_id in self.ids:
            id_text = texts.get(gymnasium_id, PackText())
            own_limit = self.max_steps if self.variant else None
            yield PackTask(
                id=gymnasium_id,
                name=task_name(gymnasium_id, self.variant),
                kind=TaskKind(self.kind),
                weight=self.weight,
                max_steps=own_limit or limits.get(gymnasium_id, self.max_steps),
                arguments=self.arguments,
                text=_completed(self.text, id_text) if self.variant else _completed(id_text, self.text),
                idle_action=self.idle_action,
                success=self.success,
            )


def _completed(text: PackText, rest: PackText) -> PackText:
    """Return a text whose empty fields are those of another."""
    return PackText(**(asdict(rest) | {name: words for name, words in asdict(text).items() if words}))


@dataclass(frozen=True, slots=True)
class _PackFile:
    """The content of a pack file."""

    title: str
    family: str
    licence: str
    requirements: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    size_mb: int = 0
    extra: str = ""
    python: str = ">=3.11"
    no_dependencies: tuple[str, ...] = ()
    tasks: tuple[_TaskGroup, ...] = ()
    limits: dict[str, int] = field(default_factory=dict)
    texts: dict[str, PackText] = field(default_factory=dict)
    anchors: dict[str, TaskAnchors] = field(default_factory=dict)
    challenges: dict[str, Challenge] = field(default_factory=dict)
    headroom: dict[str, Headroom] = field(default_factory=dict)
    worlds: dict[str, dict[str, World]] = field(default_factory=dict)
    unavailable: tuple[Unavailable, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadablePack:
    """A pack of another distribution that can't be read."""

    name: str
    reason: str


def names() -> list[str]:
    """Return all names: shipped packs, then those of other distributions, each sorted."""
    shipped = _files()
    return [*sorted(shipped), *sorted(entry_points_of(GROUP).keys() - shipped.keys())]


def readable() -> list[Pack]:
    """Return all packs in the order of ``names``, except unreadable ones."""
    return [pack for pack in map(_load_or_none, names()) if pack]


def unreadable() -> list[UnreadablePack]:
    """Return packs of other distributions that can't be read or have the name of a shipped pack."""
    shadowed = [
        UnreadablePack(name, f"The pack {name!r} of {_distribution(name)} is left out: a shipped pack has that name.")
        for name in sorted(entry_points_of(GROUP).keys() & _files().keys())
    ]
    return [*shadowed, *(UnreadablePack(name, reason) for name in names() if (reason := _why_unreadable(name)))]


def load(name_or_path: str) -> Pack:
    """Return the pack of a name, or of a path to a ``.toml`` file, whose stem is then the name.

    Raises ``UnknownName``, or ``UsageError`` where its file is not a pack.
    """
    return _of_file(Path(name_or_path)) if name_or_path.endswith(SUFFIX) else _of_name(name_or_path)


@cache
def _of_name(name: str) -> Pack:
    if file := _files().get(name):
        return decode(file.read_text(encoding="utf-8"), name)
    if point := entry_points_of(GROUP).get(name):
        _check_name(name)
        return decode(_text(file_of(point, "pack")), name)
    raise UnknownName("pack", name, names())


def _of_file(file: Path) -> Pack:
    if file.stem in _files():
        raise UsageError(f"{file}: a shipped pack is named {file.stem!r}; rename the file.")
    _check_name(file.stem)
    return replace(decode(_text(file), file.stem), file=str(file))


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(f"Invalid name of a pack {name!r}: expected a letter, then letters, digits, - or _.")


def _text(file: Traversable) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} can't be read ({error.strerror}): expected the TOML file of a pack.") from error
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


def _distribution(name: str) -> str:
    point = entry_points_of(GROUP)[name]
    return point.dist.name if point.dist else point.value


def decode(text: str, name: str) -> Pack:
    """Return the pack of a TOML text; raise ``UsageError`` with all problems."""
    try:
        file = decoder(_PackFile, allow_inf_nan=False).value(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"The pack {name!r} is not TOML: {error}.") from error
    except Undecodable as error:
        raise UsageError(f"The pack {name!r}: {'; '.join(map(str, error.problems))}.") from error
    tasks = tuple(task for group in file.tasks for task in group.tasks(file.texts, file.limits))
    tasks = tuple(
        replace(
            task,
            anchors=file.anchors.get(task.name),
            challenge=file.challenges.get(task.name),
            headroom=file.headroom.get(task.name),
            worlds={name: name_world(world, name) for name, world in file.worlds.get(task.name, {}).items()},
        )
        for task in tasks
    )
    if problems := [*_repeated_names(tasks), *_unknown_tasks(file, tasks), *_unrequired(file)]:
        raise UsageError(f"The pack {name!r}: {'; '.join(problems)}.")
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
        no_dependencies=file.no_dependencies,
    )


def _repeated_names(tasks: tuple[PackTask, ...]) -> list[str]:
    counts = Counter(task.name for task in tasks)
    return [
        f"{name} occurs {count} times: expected a distinct variant for each"
        for name, count in counts.items()
        if count > 1
    ]


def _unknown_tasks(file: _PackFile, tasks: tuple[PackTask, ...]) -> list[str]:
    ids, task_names = {task.id for task in tasks}, {task.name for task in tasks}
    tables = [
        ("is a text", file.texts.keys() - ids),
        ("is a limit", file.limits.keys() - ids),
        ("are anchors", file.anchors.keys() - task_names),
        ("is a challenge", file.challenges.keys() - task_names),
        ("is a headroom", file.headroom.keys() - task_names),
        ("are worlds", file.worlds.keys() - task_names),
    ]
    return [f"there {what} of {key}, which is not one of its tasks" for what, keys in tables for key in sorted(keys)]


def _unrequired(file: _PackFile) -> list[str]:
    required = set(map(distribution_name, file.requirements))
    absent = (name for name in file.no_dependencies if distribution_name(name) not in required)
    return [f"no_dependencies names {name}, which is not one of its requirements" for name in absent]


def find(name: str) -> tuple[Pack, PackTask] | None:
    """Return a task with its pack by name or id; None where no pack has it.

    ``FILE.toml:TASK`` names a task of a file; raises ``UsageError`` where there is none.
    """
    file, _, task = name.rpartition(":")
    if file.endswith(SUFFIX):
        return (pack := load(file)), task_of(pack, task)
    return find_listed(task)


def find_listed(name: str) -> tuple[Pack, PackTask] | None:
    """Return a task with its pack by name or id, from listed packs only; None where none has it."""
    for pack in readable():
        if task := pack.task(name):
            return pack, task
    return None


def is_shipped(spec: EnvironmentSpec) -> bool:
    """Return whether a spec is that of the task that ships under its name, in whatever world.

    What counts is the fingerprint. A pack's task, whose texts are derived from its simulator, is compared by its id,
    limit, arguments, modules and rule of success. Tasks of installed distributions count, since no record brings them.
    """
    if fingerprints := shipped_fingerprints(spec.name):
        return spec_sha256(replace(spec, world=None)) in fingerprints
    match = find_listed(spec.name)
    return match is not None and _is_task(spec, *match)


def _is_task(spec: EnvironmentSpec, pack: Pack, task: PackTask) -> bool:
    return (spec.id, spec.name, dict(spec.arguments), spec.imports, success_of(spec.success), spec.max_steps) == (
        task.id, task.name, dict(task.arguments), pack.imports, success_of(task.success), _step_limit(pack, task)
    )  # fmt: skip


def _step_limit(pack: Pack, task: PackTask) -> int | None:
    """Return the limit of a task's episodes: the declared one, else that which a check or its anchors measured."""
    record = shipped_record(pack.name)
    checked = record.task(task.name) if record else None
    measured = task.anchors.max_steps if task.anchors else None
    return task.max_steps or (checked.max_steps if checked else None) or measured


def task_of(pack: Pack, name: str) -> PackTask:
    """Return a pack's task by name or id; raise ``UnknownName`` where it has none."""
    task = pack.task(name)
    if task is None:
        raise UnknownName(f"task of the pack {pack.name!r}", name, [known.name for known in pack.tasks])
    return task


def _files() -> dict[str, Traversable]:
    entries = (files("evopolicygym.specs") / "packs").iterdir()
    return {file.name.removesuffix(SUFFIX): file for file in entries if file.name.endswith(SUFFIX)}


TASKS = "tasks"


@cache
def shipped_record(name: str) -> PackRecord | None:
    """Return the shipped record of a pack's check; None where there is none."""
    file = files("evopolicygym.specs").joinpath("pack_checks", f"{name}.json")
    return decode_record(file.read_bytes(), file.name) if file.is_file() else None


def decode_record(text: bytes, where: str) -> PackRecord:
    """Return the record in a file; raise ``UsageError`` with all problems."""
    try:
        return decoder(PackRecord, allow_inf_nan=False).json(text)
    except Undecodable as error:
        raise UsageError(f"Invalid record of a pack's check in {where}: {error}.") from error


def encode_record(record: PackRecord) -> str:
    """Return the JSON text of a record, without the empty fields of tasks."""
    head = {name: value for name, value in asdict(record).items() if name != TASKS}
    lines = [json.dumps({name: value for name, value in asdict(task).items() if value not in (None, "", ())})
             for task in record.tasks]  # fmt: skip
    start = json.dumps(head, indent=1, sort_keys=True).removesuffix("\n}")
    return f'{start},\n "{TASKS}": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"
