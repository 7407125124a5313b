"""The environment of a run: a spec's name or file, a task of a pack, or any id that gymnasium knows.

A spec that is derived from an id is terse, and a run records all of it: nothing is derived again for a run that is
resumed or played again.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evopolicygym.core.errors import UnknownName, UnregisteredId, UsageError
from evopolicygym.core.pack import Pack, PackTask
from evopolicygym.core.task import EnvironmentSpec, TaskText
from evopolicygym.core.world import STANDARD, World, decode_world
from evopolicygym.environments.derived import add_anchors, bare_spec, complete_spec, derive_spec, pack_spec
from evopolicygym.environments.description import cached_description
from evopolicygym.packs.installation import needed
from evopolicygym.specs import catalog, pack_catalog

ID = re.compile(r"(?=.*(-v\d+$|[:/]))([\w.]+:)?([\w-]+/)?[\w.-]+", re.ASCII)
"""An id, as opposed to a name of a spec: it has a version, a namespace or a module, and is not a path."""
MOST_NEAR = 3
NAMELESS = "custom"
"""The name of a world whose document, given as a table, has none."""
ALL = "evopolicygym environments and evopolicygym packs list what there is"


def asked_environment(
    asked: str, text: TaskText, imports: Sequence[str] = (), arguments: Mapping[str, Any] | None = None
) -> tuple[EnvironmentSpec, TaskText]:
    """Return the spec of what is asked for, and which of its texts it has.

    Raises ``UnknownName``, ``UsageError`` where what is asked for isn't known, isn't installed or takes no arguments,
    ``EnvironmentFault`` where its simulator fails.
    """
    given = dict(arguments or {})
    if asked.endswith(".toml") or asked in catalog.names():
        if imports or given:
            raise UsageError(
                f"--import and --make were given with {asked!r}, whose spec names its modules and arguments. They work "
                f"with an environment's id, such as {catalog.load(asked).registered_id}."
            )
        return catalog.load(asked, text), text
    if found := pack_catalog.find(asked):
        return _of_pack(*found, tuple(imports), given), TaskText.TERSE
    if not imports and ":" not in asked and (why := _why_unavailable(asked)):
        raise UsageError(why)
    if not (ID.fullmatch(asked) or imports):
        raise unknown_name(asked)
    try:
        return derive_spec(bare_spec(asked, tuple(imports), given)), TaskText.TERSE
    except UnregisteredId as error:
        raise unregistered_id(asked, imports) from error


def asked_world(asked: str, world: str | Mapping[str, Any]) -> World | None:
    """Return the world that a run of an environment asks for; None for the standard one.

    ``world`` is a name that ships with the environment, the path of a TOML file, or a world's document. Raises
    ``UsageError`` where it is none of these.
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
    if asked.endswith(".toml") or asked in catalog.names():
        known = catalog.worlds_of(asked)
    elif found := pack_catalog.find(asked):
        known = found[1].worlds
    if world not in known:
        raise UnknownName(f"world of {asked}", world, [STANDARD, *known])
    return known[world]


def _of_pack(pack: Pack, task: PackTask, imports: tuple[str, ...], arguments: Mapping[str, Any]) -> EnvironmentSpec:
    own = None if pack.is_beside_us else needed(pack)
    if own is None and (missing := [module for module in imports if find_spec(module.partition(".")[0]) is None]):
        raise UsageError(f"--import {missing[0]}: there is no module of that name on Python's path.")
    spec = pack_spec(pack, task, imports, arguments)
    whole = complete_spec(spec, cached_description(spec, own), task.text)
    return whole if arguments else add_anchors(whole, task.anchors)  # other arguments make another environment


def unknown_name(asked: str) -> UnknownName:
    """Return the error for a word that is neither a spec's name nor a task's, and can't be an id."""
    near = _near(asked)
    tasks = f"Near tasks of packs: {', '.join(near)}. " if near else ""
    return UnknownName("environment", asked, catalog.names(), f"{tasks}{ALL}; any id that gymnasium knows plays too.")


def unregistered_id(asked: str, imports: Sequence[str]) -> UnregisteredId:
    """Return the error for an id that is of no pack, and that gymnasium doesn't know after some imports."""
    after = f", and importing {', '.join(imports)} registers none of that id" if imports else ""
    said = [f"No environment is registered as {asked!r}{after}."]
    if owners := _owners(asked):
        said += [
            f"The pack {name!r} is known (evopolicygym packs show {name}); it has no such task." for name in owners
        ]
    if near := _near(asked):
        said += [f"Near ones: {', '.join(near)}."]
    another = "another module" if imports else "the module"
    return UnregisteredId(f"{' '.join(said)} --import MODULE names {another} that registers an id; {ALL}.")


def _why_unavailable(asked: str) -> str:
    """Return why a task can't be had that a pack lists so; empty where none does."""
    for pack in pack_catalog.readable():
        for listed in pack.unavailable:
            if any(fnmatchcase(asked, pattern) for pattern in listed.ids):
                return f"The environment {asked!r} can't be played ({pack.title}). {listed.reason}"
    return ""


def _owners(asked: str) -> list[str]:
    """Return the packs whose ids have the namespace of an id: what stands before its slash."""
    namespace, slash, _ = asked.rpartition(":")[2].rpartition("/")
    return [
        pack.name
        for pack in pack_catalog.readable()
        if slash and any(task.id.startswith(f"{namespace}/") for task in pack.tasks)
    ]


def _near(asked: str) -> list[str]:
    """Return the few ids of packs that are written nearly so, or that have all of a word in them."""
    bare = asked.rpartition(":")[2]
    ids = list(dict.fromkeys(task.id for pack in pack_catalog.readable() for task in pack.tasks))
    alike = get_close_matches(bare, ids, MOST_NEAR)
    return alike or [name for name in ids if bare.casefold() in name.casefold()][:MOST_NEAR]
