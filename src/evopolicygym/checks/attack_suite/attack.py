"""The attacks: hostile policies that a sandbox is held against, and what each of them must come to.

Each is one file of ``checks/attacks/``: a policy as any agent could submit it, read but never imported by us. Its
docstring begins with its id and what it tries, and then has a line for each of these:

``submission``: the status that its submission must end with; ``episodes``: how each of its episodes may end, ``ok`` or
a ``FailureReason``; ``guarantees``: what a backend must guarantee to hold it; where there is no such line every backend
holds it, as the watch over every policy does; ``played``: how many episodes show the whole of it (3 where nothing is
said).

What a policy reaches that it must not, it prints on a line that begins with ``LEAK``. Beside it lies ``decoys.json``,
which names things of the host: a file, a directory, a process, sockets, the judge's address. How attacks are played is
not described here but in ``suite.py``.
"""

import ast
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from evopolicygym.sandbox.guarantee import Guarantee

DECOYS_FILE = "decoys.json"
LEAK = "LEAK"
OK = "ok"
USUAL_EPISODES = 3


@dataclass(frozen=True, slots=True)
class Attack:
    """One hostile policy, and its safe outcome."""

    id: str
    name: str
    """The attack in words."""
    source: str
    submission: str
    """The status that its submission ends with."""
    endings: frozenset[str]
    """How each of its episodes may end: ``ok`` or the reason of a failure."""
    guarantees: frozenset[Guarantee]
    """What holds it; empty where every backend does."""
    episodes: int
    """How many episodes show the whole of it."""


@cache
def attacks() -> tuple[Attack, ...]:
    """Return every attack, in the order of their ids."""
    found = (file for file in files("evopolicygym.checks").joinpath("attacks").iterdir() if file.name.endswith(".py"))
    return tuple(read(file.read_text(encoding="utf-8")) for file in sorted(found, key=lambda file: file.name))


def attack(identity: str) -> Attack:
    """Return the attack of an id."""
    return next(one for one in attacks() if one.id == identity)


def read(source: str) -> Attack:
    """Return the attack whose policy this is; it is parsed, not run."""
    head, _, rest = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")
    identity, _, name = " ".join(head.split()).partition(": ")
    fields = dict(line.split(": ", 1) for line in rest.splitlines() if ": " in line)
    return Attack(
        identity,
        name,
        source,
        fields["submission"],
        frozenset(fields["episodes"].split(", ")),
        frozenset(map(Guarantee, filter(None, fields.get("guarantees", "").split(", ")))),
        int(fields.get("played", USUAL_EPISODES)),
    )
