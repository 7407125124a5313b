"""Where a record comes from, and what of it may therefore be run: nothing of a record from elsewhere without a word.

A record names programs: its agent, the command of one, and a simulator with its arguments. Those of a run that this
user began on this machine, which its high-water mark says, are the user's own choice. Policies don't matter here:
they play in a sandbox, at a level that no record lowers.
"""

import shlex
from pathlib import Path
from typing import Any

from evopolicygym.core.errors import UsageError
from evopolicygym.core.event import RunOpened
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.core.text import printable
from evopolicygym.environments.derived import pack_spec
from evopolicygym.records import rollback_guard
from evopolicygym.specs import catalog, pack_catalog

TRUST = "--trust"
"""The option by which a user says that what a record names may be run."""


def check_agent(root: Path, opened: RunOpened, *, trusted: bool) -> None:
    """Raise ``UsageError`` where resuming a run would start what somebody else named, and nobody has allowed that."""
    if trusted or rollback_guard.is_marked(root):
        return
    agent = opened.agent
    command = f", which runs the command: {shlex.join(agent.command)}" if agent.command else ""
    raise UsageError(
        f"{root} was not begun on this machine by this user. To resume it would "
        f"start its agent {printable(agent.name)!r}{printable(command)}; isolation {printable(opened.isolation)!r}, "
        f"environment {_described(opened.task.environment)}. If you trust whoever made it, add {TRUST}. To look at it "
        f"without starting anything: show, verify, diagnose, view."
    )


def check_simulator(root: Path, opened: RunOpened, *, trusted: bool) -> None:
    """Raise ``UsageError`` where playing a record's cases would run a simulator that is not known here.

    A spec may import any module that is installed, and hand it anything.
    """
    spec = opened.task.environment
    if trusted or _is_known(spec) or rollback_guard.is_known(root):
        return
    raise UsageError(
        f"{root} was played on an environment of its own, {_described(spec)}, which is not among those that are "
        f"known here (evopolicygym environments, evopolicygym packs), and the run was not begun on this machine by "
        f"this user. To play its cases would run that simulator with your rights. If you trust whoever made it, add "
        f"{TRUST}."
    )


def _is_known(spec: EnvironmentSpec) -> bool:
    """Return whether a spec has the same code run, with the same arguments, as what has its name here."""
    if spec.name in catalog.names():
        return _runs(spec) == _runs(catalog.load(spec.name))
    found = pack_catalog.find_listed(spec.name)
    return found is not None and _runs(spec) == _runs(pack_spec(*found))


def _runs(spec: EnvironmentSpec) -> tuple[Any, ...]:
    """Return all that decides which code runs, on which Python, and with which arguments."""
    return spec.id, spec.imports, spec.arguments, spec.pack


def _described(spec: EnvironmentSpec) -> str:
    imports = f", which imports {', '.join(spec.imports)}" if spec.imports else ""
    return printable(f"{spec.name!r} (gymnasium's {spec.id!r}{imports})")
