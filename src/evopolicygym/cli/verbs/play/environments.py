"""``evopolicygym environments``: list the environments, and draft specs of others."""

import json
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from evopolicygym.cli.output import out, print_json, print_text
from evopolicygym.core.errors import UnregisteredId, UsageError
from evopolicygym.core.pack import Pack, PackTask
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.core.text import number, shell_word
from evopolicygym.environments.versions import is_installed
from evopolicygym.specs.catalog import load, names
from evopolicygym.specs.pack_catalog import readable

EXAMPLES = """
Examples:

evopolicygym environments

evopolicygym environments --all | grep -i maze

evopolicygym environments --json | jq '.[].name'

evopolicygym environments add Pendulum-v1
"""
ADD_EXAMPLES = """
Examples:

evopolicygym environments add Pendulum-v1

evopolicygym environments add gym_pusht/PushT-v0 --import gym_pusht -o push.toml

evopolicygym environments add ale_py:ALE/Pong-v5 --make obs_type=ram

PYTHONPATH=. evopolicygym environments add walk:Walk-v0   (registered in your walk.py)
"""
MISSING = " *"
"""Marks environments whose simulator is not installed."""
NAME_WIDTH = 50
"""Columns of the names of packs' tasks."""
WIDE = 100
"""The least columns of a terminal to show gymnasium's ids."""


class _Listing(TyperGroup):
    """Answers a word after ``environments`` that is no command of it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer's
        """Return the command that the first word names; raise ``UsageError`` if there is none."""
        if args[0] in self.commands:
            return super().resolve_command(ctx, args)
        word = shell_word(args[0])
        raise UsageError(
            f"Invalid word after environments: expected {', '.join(self.commands)} or nothing, got {args[0]!r}. "
            f"evopolicygym environments --all lists all tasks, evopolicygym check environment {word} checks one, and "
            f"evopolicygym environments add {word} drafts a spec of a gymnasium id."
        )


app = typer.Typer(
    cls=_Listing, invoke_without_command=True, epilog=EXAMPLES, rich_markup_mode="rich", add_completion=False
)


@app.callback()
def environments(
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="List the tasks of all packs too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole specs as JSON.")] = False,
) -> None:
    """List the environments with their anchors; `add` drafts a spec of your own."""
    if context.invoked_subcommand:
        return
    specs: list[EnvironmentSpec] = [load(name) for name in names()]
    packs = [pack for pack in readable() if pack.tasks] if everything else []
    if as_json:
        documents = [{**asdict(spec), "is_installed": is_installed(spec)} for spec in specs]
        print_json([*documents, *(_task_document(pack, task) for pack in packs for task in pack.tasks)])
        return
    wide = out().width >= WIDE
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("name", "kind", *(["gymnasium id"] if wide else [])):
        table.add_column(heading, no_wrap=True)
    for heading in ("steps", "random", "idle", "reference"):
        table.add_column(heading, justify="right", no_wrap=True)
    for family, members in groupby(sorted(specs, key=lambda spec: (spec.family, spec.name)), lambda spec: spec.family):
        table.add_row(Text(family, "bold"))
        for spec in members:
            anchors = (spec.random_anchor, spec.idle_anchor, spec.reference_anchor)
            means = (number(anchor.mean if anchor else None) for anchor in anchors)
            words = (
                f"  {spec.name}{'' if is_installed(spec) else MISSING}",
                spec.kind.value,
                *([spec.id] if wide else []),
                str(spec.max_steps),
            )
            table.add_row(*words, *means)
    out().print(table)
    if missing := [spec for spec in specs if not is_installed(spec)]:
        extras = ",".join(sorted({spec.extra for spec in missing if spec.extra}))
        out().print(
            f"{MISSING.strip()} not installed: pip install 'evopolicygym[{extras}]'", markup=False, soft_wrap=True
        )
    for pack in packs:
        print_text(f" {pack.name}: {pack.title}")
        for task in pack.tasks:
            print_text(f"   {task.name:<{NAME_WIDTH}} {task.kind.value:<9} {task.max_steps or '':>7}".rstrip())
    if not everything:
        out().print("more: evopolicygym packs lists families, evopolicygym environments --all their tasks", style="dim")


def _task_document(pack: Pack, task: PackTask) -> dict[str, object]:
    return {
        "name": task.name,
        "id": task.id,
        "family": pack.family,
        "kind": task.kind,
        "max_steps": task.max_steps,
        "pack": pack.name,
    }


@app.command(epilog=ADD_EXAMPLES)
def add(
    gymnasium_id: Annotated[str, typer.Argument(metavar="GYM_ID", help="A registered id, or MODULE:ID.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The file to write. Default: named after the id."),
    ] = None,
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="MODULE", help="A module that registers the id; may be given several times."),
    ] = None,
    make: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An argument of gymnasium.make, as JSON or text; may be given several times.",
        ),
    ] = None,
) -> None:
    """Draft the TOML file of an environment from its gymnasium id; you complete the texts."""
    from evopolicygym.environments.draft import draft, file_name
    from evopolicygym.runs.environment import unregistered_id

    if gymnasium_id in names():
        raise UsageError(
            f"{gymnasium_id} has a spec, and needs no draft: evopolicygym run {gymnasium_id}. "
            f"evopolicygym environments add {load(gymnasium_id).registered_id} drafts another one of its simulator."
        )
    file = output or Path(file_name(gymnasium_id))
    if file.suffix != ".toml":
        raise UsageError(f"Invalid file {file}: expected a name that ends in .toml, such as {file.stem}.toml.")
    if file.exists():
        raise UsageError(f"{file} already exists and is not overwritten; name another file with -o.")
    arguments = dict(map(_parse_argument, make or ()))
    try:
        spec = draft(gymnasium_id, tuple(imports or ()), arguments, file.stem)
    except UnregisteredId as error:
        raise unregistered_id(gymnasium_id, imports or ()) from error
    except UsageError as error:
        raise UsageError(f"{error} Name a module with --import MODULE or MODULE:ID.") from error
    try:
        with file.open("x", encoding="utf-8") as output_file:
            output_file.write(spec.text)
    except OSError as error:
        raise UsageError(f"{file} can't be written: {error.strerror}.") from error
    out().print(Text(f"{file} is drafted."), soft_wrap=True)
    if spec.to_write:
        out().print(Text(f"to write   {', '.join(spec.to_write)}"), soft_wrap=True)
    if spec.to_check:
        out().print(Text(f"guessed    {'; '.join(spec.to_check)}"), soft_wrap=True)
    out().print(Text(f"to check   evopolicygym check environment {shell_word(file)}"), soft_wrap=True)
    out().print(Text(f"next       evopolicygym anchors {shell_word(file)}"), soft_wrap=True)


def _parse_argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"Invalid --make: expected NAME=VALUE, such as use_lidar=false, got {text!r}.")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
