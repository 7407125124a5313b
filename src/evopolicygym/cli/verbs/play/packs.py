"""``evopolicygym packs``: list families of environments; install, check and remove them."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from evopolicygym.cli.interruption import interruptible
from evopolicygym.cli.output import out, print_json
from evopolicygym.cli.pack_installation import install_packs
from evopolicygym.cli.tables import print_table
from evopolicygym.core.errors import UsageError
from evopolicygym.core.pack import Pack, PackTask
from evopolicygym.environments.versions import are_installed
from evopolicygym.packs.installation import installed
from evopolicygym.specs.catalog import SUFFIX
from evopolicygym.specs.pack_catalog import NAME, UnreadablePack, load, readable, unreadable

EXAMPLES = """
Examples:

evopolicygym packs

evopolicygym packs show ale

evopolicygym packs install ale && evopolicygym run ALE/Tetris-v5 --agent random --budget 4

evopolicygym packs check ale --task ALE/Tetris-v5

evopolicygym packs check my_family.toml   (a pack of your own)

evopolicygym packs remove ale
"""

app = typer.Typer(invoke_without_command=True, epilog=EXAMPLES, rich_markup_mode="rich", add_completion=False)
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
NAME_HELP = "A pack's name, as evopolicygym packs lists it, or your file."
Name = Annotated[str, typer.Argument(help=NAME_HELP)]
Names = Annotated[list[str], typer.Argument(metavar="NAME…", help=NAME_HELP)]


@app.callback()
def packs(asked: typer.Context, as_json: AsJson = False) -> None:
    """List families of environments: what they are, how many tasks they have, whether they are installed."""
    if asked.invoked_subcommand:
        return
    found, broken = readable(), unreadable()
    if as_json:
        print_json([*map(_document, found), *map(_unreadable_document, broken)])
        return
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("pack", no_wrap=True)
    table.add_column("tasks", justify="right")
    table.add_column("installed", no_wrap=True)
    table.add_column("MB", justify="right")
    table.add_column("what")
    for pack in found:
        size = _megabytes(pack)
        table.add_row(pack.name, str(len(pack.tasks)), _state(pack), str(size) if size else "", Text(pack.title))
    out().print(table)
    for problem in broken:
        out().print(Text(problem.reason, "yellow"), soft_wrap=True)
    out().print(f"{sum(len(pack.tasks) for pack in found)} tasks; each can be played by its id", style="dim")


@app.command(epilog="Examples:\n\nevopolicygym packs show ale\n\nevopolicygym packs show ale --json")
def show(name: Name, as_json: AsJson = False) -> None:
    """Show a pack: what is installed for it, its licence, its tasks, and what can't be had."""
    from evopolicygym.analysis.tables.packs import tasks_table  # loads numpy, which no listing needs

    pack = load(name)
    if as_json:
        print_json({**_document(pack), "task_list": [_task_document(pack, task) for task in pack.tasks]})
        return
    lines = {
        "installed": _state(pack),
        "packages": f"evopolicygym[{pack.extra}]" if pack.extra else ", ".join(pack.requirements) or "none besides",
        "Python": pack.python,
        "licence": pack.licence,
        **{f"not {family.what}": family.reason for family in pack.unavailable},
    }
    out().print(Text(pack.title, "bold"))
    for heading, text in lines.items():
        out().print(Text(f"{heading:<10} {text}"), soft_wrap=True)
    if pack.tasks:
        print_table(out(), tasks_table(pack))


@app.command(epilog="Examples:\n\nevopolicygym packs install ale\n\nevopolicygym packs install my_family.toml")
def install(names: Names) -> None:
    """Install packs, each into a Python environment of its own. What is broken off goes on with the same command."""
    packs = [load(name) for name in names]
    install_packs(packs)
    for pack in packs:
        then = f"packs check {pack.file}" if pack.file else f"run {pack.tasks[0].id} --agent random --budget 4"
        out().print(Text(f"next  evopolicygym {then}"), soft_wrap=True)


@app.command(epilog="Example:\n\nevopolicygym packs remove ale")
def remove(name: Name) -> None:
    """Remove a pack's Python environment. Runs that were played on it stay."""
    from evopolicygym.packs.installer import remove as remove_pack

    called = Path(name).stem if name.endswith(SUFFIX) else name
    if not (NAME.fullmatch(called) and remove_pack(called)):
        raise UsageError(f"The pack {load(name).name!r} is not installed, so there is nothing to remove.")
    out().print(f"{name} is removed")


@app.command(
    epilog="Examples:\n\nevopolicygym packs check ale --task ALE/Tetris-v5\n\nevopolicygym packs check my.toml"
)
def check(
    name: Name,
    tasks: Annotated[
        list[str] | None, typer.Option("--task", help="A task's name or id; may be given several times. Default: all.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="A JSON file to record it in; what has passed there under the same versions is kept."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Play every task of a pack for some seconds, without a network. Exit code 1 if one fails.

    Two resets must repeat bit for bit, observations must be of their space, and no file may be left behind.
    """
    from evopolicygym.checks.pack import check as check_pack
    from evopolicygym.cli.tables import show_findings

    with interruptible():
        found = show_findings(lambda _: check_pack(name, tuple(tasks or ()), output), name, as_json=as_json)
    if as_json:
        checked = [
            {"name": finding.name, "ok": finding.ok, "detail": finding.detail, **finding.more} for finding in found
        ]
        print_json({"pack": name, "tasks": checked})
    if not all(finding.ok for finding in found):
        raise typer.Exit(1)


def _state(pack: Pack) -> str:
    if not pack.tasks:
        return "can't be had"
    if pack.is_beside_us:
        there = f"with {pack.extra}" if pack.extra else "yes"
        return there if are_installed(pack.packages) else "no"
    found = installed(pack.name)
    if found is None:
        return "no"
    return "yes" if set(pack.requirements) <= set(found.requirements) else "other versions"


def _megabytes(pack: Pack) -> int:
    found = installed(pack.name)
    return found.size_mb if found else pack.size_mb


def _task_document(pack: Pack, task: PackTask) -> dict[str, Any]:
    from evopolicygym.specs.pack_catalog import shipped_record

    record = shipped_record(pack.name)
    checked = record.task(task.name) if record else None
    found = asdict(checked) if checked else {}
    facts = ("observation", "action", "repeats", "steps_per_second", "random_mean", "random_episodes",
             "episode_seconds", "memory_mb")  # fmt: skip
    return {
        "name": task.name, "id": task.id, "kind": task.kind.value, "weight": task.weight.value,
        "arguments": dict(task.arguments), "max_steps": task.max_steps or found.get("max_steps"),
        "success": task.success.meaning if task.success else None, **{name: found.get(name) for name in facts},
    }  # fmt: skip


def _document(pack: Pack) -> dict[str, Any]:
    return {
        "name": pack.name, "title": pack.title, "family": pack.family, "tasks": len(pack.tasks),
        "installed": _state(pack), "size_mb": _megabytes(pack), "requirements": list(pack.requirements),
        "python": pack.python, "licence": pack.licence, "extra": pack.extra,
        "unavailable": [
            {"what": family.what, "tasks": family.tasks, "reason": family.reason} for family in pack.unavailable
        ],
    }  # fmt: skip


def _unreadable_document(pack: UnreadablePack) -> dict[str, Any]:
    return {"name": pack.name, "tasks": 0, "installed": "can't be read", "reason": pack.reason}
