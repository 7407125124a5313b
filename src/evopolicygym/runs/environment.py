"""The environment of a run: a spec's name or file, a task of a pack, or any id that gymnasium knows.

A spec derived from an id has terse texts. A run records the whole spec, so resuming and replaying derive nothing.
"""

import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from evopolicygym.core.errors import UnknownName, UnregisteredId, UsageError
from evopolicygym.core.pack import NAMESPACE
from evopolicygym.core.task import EnvironmentSpec, TaskText
from evopolicygym.core.text import shell_word
from evopolicygym.core.world import STANDARD, World, decode_world
from evopolicygym.environments.derived import bare_spec, derive_spec, pack_environment
from evopolicygym.specs import catalog, pack_catalog

ID = re.compile(r"(?=.*(-v\d+$|[:/]))([\w.]+:)?([\w-]+/)?[\w.-]+", re.ASCII)
"""An id of gymnasium: unlike a spec's name, it has a version, a namespace or a module."""
DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+", re.ASCII)
"""A class's name after those of its modules."""
MAX_SUGGESTIONS = 3
NAMELESS = "custom"
"""The name of a world that is given as a table without a name."""
LISTINGS = "evopolicygym environments and evopolicygym packs list what there is"


def resolve_environment(
    name: str, text: TaskText, imports: Sequence[str] = (), arguments: Mapping[str, Any] | None = None
) -> tuple[EnvironmentSpec, TaskText]:
    """Return the spec of an environment and the kind of its texts.

    ``name`` is a spec's name or ``.toml`` file, a pack's task, each also as ``evopolicygym/NAME``, or another id of
    gymnasium. Raises ``UnknownName`` or ``UsageError`` if it is unknown, not installed or takes no arguments,
    ``EnvironmentFault`` if its simulator fails.
    """
    given, name = dict(arguments or {}), name.removeprefix(f"{NAMESPACE}/")
    if name.endswith(".toml") or name in catalog.names():
        if imports or given:
            raise UsageError(
                f"--import and --make need an environment's id, such as {catalog.load(name).registered_id}, got the "
                f"spec {name!r}, which names its own modules and arguments."
            )
        return catalog.load(name, text), text
    if match := pack_catalog.find(name):
        return pack_environment(*match, tuple(imports), given), TaskText.TERSE
    if not imports and ":" not in name and (why := _why_unavailable(name)):
        raise UsageError(why)
    if not (ID.fullmatch(name) or imports) or name.endswith(".py"):
        raise unknown_name(name)
    try:
        return derive_spec(bare_spec(name, tuple(imports), given)), TaskText.TERSE
    except UnregisteredId as error:
        raise unregistered_id(name, imports) from error


def resolve_world(name: str, world: str | Mapping[str, Any]) -> World | None:
    """Return the world of an environment; None for the standard world.

    ``world`` is the name of a world that ships with the environment, the path of a TOML file, or a world's document.
    Raises ``UsageError`` if it is none of these.
    """
    if world == STANDARD:
        return None
    if not isinstance(world, str):
        return decode_world(world, str(world.get("name") or NAMELESS), "The world")
    if world.endswith(".toml"):
        file = Path(world)
        try:
            return decode_world(tomllib.loads(file.read_text(encoding="utf-8")), file.stem, world)
        except OSError as error:
            raise UsageError(f"{world} can't be read ({error.strerror}): expected a path to a TOML file.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{world} is not TOML: {error}.") from error
    known: Mapping[str, World] = {}
    if name.endswith(".toml") or name in catalog.names():
        known = catalog.worlds_of(name)
    elif match := pack_catalog.find(name):
        known = match[1].worlds
    if world not in known:
        raise UnknownName(f"world of {name}", world, [STANDARD, *known])
    return known[world]


def unknown_name(name: str) -> UnknownName:
    """Return the error for a name that is neither a spec nor a task nor an id."""
    similar = _similar_ids(name)
    tasks = f"Similar tasks of packs: {', '.join(similar)}. " if similar else ""
    playable = f"{LISTINGS}; any id of gymnasium can be played."
    return UnknownName("environment", name, catalog.names(), f"{_spelling(name)}{tasks}{playable}")


def _spelling(name: str) -> str:
    """Return how a class is spelled whose file or dotted path a name seems to be; empty if it is neither."""
    if name.endswith(".py"):
        file = Path(name)
        return f"A class in a file: PYTHONPATH={shell_word(file.parent)} evopolicygym run {file.stem}:CLASS. "
    if DOTTED.fullmatch(name):
        return f"A class in a module: {':'.join(name.rsplit('.', 1))}. "
    return ""


def unregistered_id(name: str, imports: Sequence[str]) -> UnregisteredId:
    """Return the error for an id that no pack has and that gymnasium doesn't know after the imports."""
    after = f", also after importing {', '.join(imports)}" if imports else ""
    sentences = [f"No environment is registered as {name!r}{after}."]
    if owners := _owners(name):
        sentences += [
            f"The pack {name!r} is known (evopolicygym packs show {shell_word(name)}); it has no such task."
            for name in owners
        ]
    if similar := _similar_ids(name):
        sentences += [f"Similar ids: {', '.join(similar)}."]
    if name in getattr(sys.modules.get("gymnasium"), "registry", ()):
        sentences += ["It is registered in this process only, and is made in others; run(Class) needs no id."]
    module, _, named = name.rpartition(":")
    if module:
        sentences += [f"The module {module} has no class or function {named!r} either, and {LISTINGS}."]
    else:
        another = "another module" if imports else "the module"
        sentences += [f"--import MODULE names {another} that registers an id; {LISTINGS}."]
    return UnregisteredId(" ".join(sentences))


def _why_unavailable(name: str) -> str:
    """Return why a pack lists a task as unavailable; empty if none does."""
    for pack in pack_catalog.readable():
        for listed in pack.unavailable:
            if any(fnmatchcase(name, pattern) for pattern in listed.ids):
                return f"The environment {name!r} can't be played ({pack.title}). {listed.reason}"
    return ""


def _owners(name: str) -> list[str]:
    """Return the packs whose ids have the same namespace, the part before the slash."""
    namespace, slash, _ = name.rpartition(":")[2].rpartition("/")
    return [
        pack.name
        for pack in pack_catalog.readable()
        if slash and any(task.id.startswith(f"{namespace}/") for task in pack.tasks)
    ]


def _similar_ids(name: str) -> list[str]:
    """Return a few ids of packs that are spelled similarly or contain the name."""
    gymnasium_id = name.rpartition(":")[2]
    ids = list(dict.fromkeys(task.id for pack in pack_catalog.readable() for task in pack.tasks))
    alike = get_close_matches(gymnasium_id, ids, MAX_SUGGESTIONS)
    return alike or [name for name in ids if gymnasium_id.casefold() in name.casefold()][:MAX_SUGGESTIONS]
