"""What a shell proposes while a command is typed: names of environments, agents, suites and parts, and ids of runs.

How a shell is set up for that is typer's (``--install-completion``). Where nothing here fits, the shell proposes files.
"""

from collections.abc import Iterable
from pathlib import Path

import typer

from evopolicygym.core.places import DEFAULT_RUNS

KINDS = ("environment", "sandbox", "executor", "agent")
"""Of parts that can be checked."""


def complete_environment(incomplete: str) -> list[str]:
    """Return the names of environments that begin so."""
    from evopolicygym.specs.catalog import names

    return _fitting(names(), incomplete)


def complete_agent(incomplete: str) -> list[str]:
    """Return the names of agents that begin so; none is loaded."""
    from evopolicygym.agents.base import AGENTS

    return _fitting(AGENTS.names(), incomplete)


def complete_suite(incomplete: str) -> list[str]:
    """Return the names of suites that begin so."""
    from evopolicygym.runs.suites.suite import names

    return _fitting(names(), incomplete)


def complete_run(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of runs that begin so, and ``latest``, below the directory that was named before, or ``runs``."""
    from evopolicygym.records.reader import LATEST, run_ids

    return _fitting([LATEST, *run_ids(Path(ctx.params.get("below") or DEFAULT_RUNS))], incomplete)


def complete_kind(incomplete: str) -> list[str]:
    """Return the kinds of parts that begin so."""
    return _fitting(KINDS, incomplete)


def complete_part(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of parts that begin so, of the kind that was named before."""
    from evopolicygym.rollout.executor import EXECUTORS
    from evopolicygym.sandbox.levels import BACKENDS

    match ctx.params.get("kind"):
        case "environment":
            return complete_environment(incomplete)
        case "agent":
            return complete_agent(incomplete)
        case "sandbox":
            return _fitting(BACKENDS.names(), incomplete)
        case "executor":
            return _fitting(EXECUTORS.names(), incomplete)
        case _:
            return []


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
