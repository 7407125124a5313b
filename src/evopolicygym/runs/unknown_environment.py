"""What is said of an environment that nobody knows: how it could be known, and what is near it."""

from collections.abc import Sequence
from difflib import get_close_matches

from evopolicygym.core.errors import UnknownName, UnregisteredId
from evopolicygym.specs import catalog, pack_catalog

MOST_NEAR = 3
ALL = "evopolicygym environments and evopolicygym packs list what there is"


def unknown_name(asked: str) -> UnknownName:
    """Return the error for a word that is neither a spec's name nor a task's, and can't be an id."""
    near = _near(asked)
    tasks = f"Near tasks of packs: {', '.join(near)}. " if near else ""
    return UnknownName("environment", asked, catalog.names(), f"{tasks}{ALL}; any id that gymnasium knows plays too.")


def unregistered(asked: str, imports: Sequence[str]) -> UnregisteredId:
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
    return alike or [one for one in ids if bare.casefold() in one.casefold()][:MOST_NEAR]
