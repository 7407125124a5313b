"""``evopolicygym agents``: list the agents that can play, and what they need."""

from collections.abc import Iterator
from itertools import groupby
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from evopolicygym.agents.base import AgentListing, Model, agent_listings
from evopolicygym.cli.output import out, print_json

EXAMPLES = """
Examples:

evopolicygym agents

evopolicygym agents --json | jq '.[] | select(.missing == []) | .name'

evopolicygym check agent codex   (plays a short run with a scripted model: no key, no cost)
"""
MISSING = " *"
"""Marks a need that was not found here."""
FOOT = (
    f"{MISSING.strip()} not found here (for a key: no environment variable of that name; --model-key names another). "
    f"evopolicygym check agent NAME tells how to install what is missing; if nothing is, it plays a short run that "
    f"costs nothing."
)


def agents(
    as_json: Annotated[bool, typer.Option("--json", help="Print all details as JSON.")] = False,
) -> None:
    """List the agents, built-in and installed, with their needs and what is missing here."""
    listings = sorted(agent_listings(), key=_group)
    if as_json:
        print_json([_document(agent) for agent in sorted(listings, key=lambda agent: agent.name)])
        return
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("name", no_wrap=True)
    table.add_column("what it is")
    table.add_column("needs")
    for group, members in groupby(listings, _group):
        table.add_row(Text(GROUPS[group], "bold"))
        for agent in members:
            table.add_row(Text(f"  {agent.name}"), Text(agent.about.summary), Text(", ".join(_needs(agent)), "dim"))
    out().print(table)
    out().print(FOOT, markup=False, soft_wrap=True)


GROUPS = ("no model", "tool and model", "model", "your program", "installed")
"""Headings of the table, in order."""


def _group(agent: "AgentListing") -> int:
    if not agent.is_built_in:
        return 4
    if agent.about.model is Model.OPTIONAL:
        return 3
    return (1 if agent.about.program else 2) if agent.about.model is Model.NEEDED else 0


def _needs(agent: "AgentListing") -> Iterator[str]:
    """Yield an agent's needs, with missing ones marked."""
    about = agent.about
    if not agent.is_built_in:
        yield f"see {agent.source}"
    if about.model is Model.NEEDED and not about.program:
        yield "--model"
    if about.needs:
        yield about.needs
    if about.program:
        yield about.program + (MISSING if agent.program_path is None else "")
    if not agent.extra_installed:
        yield f"[{about.extra}]{MISSING}"
    if about.key:
        yield about.key + ("" if agent.key_set else MISSING)


def _document(agent: "AgentListing") -> dict[str, object]:
    about = agent.about
    program = {"name": about.program, "path": agent.program_path, "install": about.install}
    return {
        "name": agent.name,
        "summary": about.summary,
        "source": agent.source,
        "model": about.model.value if agent.is_built_in else None,
        "needs": about.needs or None,
        "program": program if about.program else None,
        "extra": {"name": about.extra, "is_installed": agent.extra_installed} if about.extra else None,
        "key": {"variable": about.key, "is_set": agent.key_set} if about.key else None,
        "missing": list(agent.missing),
    }
