"""``evopolicygym packs``: list families of environments; install, check and remove them."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.status import Status
from rich.table import Table
from rich.text import Text

from evopolicygym.cli.interruption import interruptible
from evopolicygym.cli.output import err, out, print_json
from evopolicygym.cli.tables import print_table
from evopolicygym.core.errors import UsageError
from evopolicygym.core.pack import Pack, PackTask
from evopolicygym.core.text import shell_word
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
def packs(context: typer.Context, as_json: AsJson = False) -> None:
    """List packs, families of environments, with their tasks and whether they are installed."""
    if context.invoked_subcommand:
        return
    valid, broken = readable(), unreadable()
    if as_json:
        print_json([*map(_document, valid), *map(_unreadable_document, broken)])
        return
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("pack", no_wrap=True)
    table.add_column("tasks", justify="right")
    table.add_column("installed", no_wrap=True)
    table.add_column("MB", justify="right")
    table.add_column("what")
    for pack in valid:
        size = _megabytes(pack)
        table.add_row(pack.name, str(len(pack.tasks)), _state(pack), str(size) if size else "", Text(pack.title))
    out().print(table)
    for problem in broken:
        out().print(Text(problem.reason, "yellow"), soft_wrap=True)
    out().print(f"{sum(len(pack.tasks) for pack in valid)} tasks; each is played by its id", style="dim")


@app.command(epilog="Examples:\n\nevopolicygym packs show ale\n\nevopolicygym packs show ale --json")
def show(name: Name, as_json: AsJson = False) -> None:
    """Show a pack: its packages, licence and tasks, and what is unavailable."""
    from evopolicygym.analysis.tables.packs import tasks_table  # imports numpy, which listings don't need

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
    """Install packs, each into its own Python environment. The same command continues after an interruption."""
    packs = [load(name) for name in names]
    install_packs(packs)
    for pack in packs:
        then = (
            f"packs check {shell_word(pack.file)}"
            if pack.file
            else f"run {shell_word(pack.tasks[0].id)} --agent random --budget 4"
        )
        out().print(Text(f"next  evopolicygym {then}"), soft_wrap=True)


@app.command(epilog="Example:\n\nevopolicygym packs remove ale")
def remove(name: Name) -> None:
    """Remove a pack's Python environment; its runs are kept."""
    from evopolicygym.packs.installer import remove as remove_pack

    pack_name = Path(name).stem if name.endswith(SUFFIX) else name
    if not (NAME.fullmatch(pack_name) and remove_pack(pack_name)):
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
        typer.Option(help="A JSON file for results; tasks that passed there with the same versions are skipped."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Play every task of a pack for some seconds without network access. Exit code 1 if a task fails.

    Two resets must be identical, observations must be in their space, and no file may be left behind.
    """
    from evopolicygym.checks.pack import check as check_pack
    from evopolicygym.cli.tables import show_findings

    with interruptible():
        findings = show_findings(check_pack(name, tuple(tasks or ()), output), name, as_json=as_json)
    if as_json:
        checked = [
            {"name": finding.name, "ok": finding.ok, "detail": finding.detail, **finding.more} for finding in findings
        ]
        print_json({"pack": name, "tasks": checked})
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def install_packs(packs: Iterable[Pack]) -> None:
    """Install packs and print the directory of each; raise ``UsageError`` at the first failure."""
    from evopolicygym.packs.installer import install

    for pack in packs:
        with interruptible(), err().status(f"{pack.name}: starting") as status:

            def report(step: str, pack: Pack = pack, status: Status = status) -> None:
                status.update(f"{pack.name}: {step}")
                if not err().is_terminal:
                    err().print(Text(f"{pack.name}: {step}"), soft_wrap=True)

            installation = install(pack, report)
        size, directory = installation.size_mb, installation.directory
        out().print(Text(f"{pack.name} is installed: {size} MB in {directory}"), soft_wrap=True)


def _state(pack: Pack) -> str:
    if not pack.tasks:
        return "can't be had"
    if pack.is_beside_us:
        installed_as = f"with {pack.extra}" if pack.extra else "yes"
        return installed_as if are_installed(pack.packages) else "no"
    installation = installed(pack.name)
    if installation is None:
        return "no"
    return "yes" if set(pack.requirements) <= set(installation.requirements) else "other versions"


def _megabytes(pack: Pack) -> int:
    installation = installed(pack.name)
    return installation.size_mb if installation else pack.size_mb


def _task_document(pack: Pack, task: PackTask) -> dict[str, Any]:
    from evopolicygym.specs.pack_catalog import shipped_record

    record = shipped_record(pack.name)
    result = record.task(task.name) if record else None
    measured = asdict(result) if result else {}
    facts = ("observation", "action", "repeats", "steps_per_second", "random_mean", "random_episodes",
             "episode_seconds", "memory_mb")  # fmt: skip
    return {
        "name": task.name, "id": task.id, "kind": task.kind.value, "weight": task.weight.value,
        "arguments": dict(task.arguments), "max_steps": task.max_steps or measured.get("max_steps"),
        "success": task.success.meaning if task.success else None, **{name: measured.get(name) for name in facts},
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
