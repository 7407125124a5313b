"""``evopolicygym environments new``: drafts the TOML of a gymnasium id."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from evopolicygym.cli.console import out
from evopolicygym.core.errors import UsageError
from evopolicygym.environments.draft import draft, file_name

EXAMPLES = """
Examples:

evopolicygym environments new Pendulum-v1

evopolicygym environments new gym_pusht/PushT-v0 --import gym_pusht -o push.toml

evopolicygym environments new ale_py:ALE/Pong-v5 --argument obs_type=ram

PYTHONPATH=. evopolicygym environments new walk:Walk-v0   (registered in your walk.py)
"""


def new(
    gymnasium_id: Annotated[str, typer.Argument(metavar="GYM_ID", help="An id that is registered, or MODULE:ID.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The file to be made; by default named after the id."),
    ] = None,
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="MODULE", help="A module that registers it; may be repeated."),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Option("--argument", metavar="NAME=VALUE", help="Of gymnasium.make, as JSON or text; may be repeated."),
    ] = None,
) -> None:
    """Draft the TOML of an environment of your own from a gymnasium id; the texts are left to you."""
    file = output or Path(file_name(gymnasium_id))
    if file.suffix != ".toml":
        raise UsageError(
            f"{file} can't be an environment's file: its name must end with .toml, as in {file.stem}.toml."
        )
    if file.exists():
        raise UsageError(f"{file} is already there, and is not overwritten; name another file with -o.")
    given = dict(map(_argument, arguments or ()))
    try:
        drafted = draft(gymnasium_id, tuple(imports or ()), given, file.stem)
    except UsageError as error:
        raise UsageError(f"{error} Here --import names a module, or MODULE:ID does.") from error
    try:
        with file.open("x", encoding="utf-8") as writing:
            writing.write(drafted.text)
    except OSError as error:
        raise UsageError(f"{file} can't be written: {error.strerror}.") from error
    out().print(Text(f"{file} is drafted."), soft_wrap=True)
    if drafted.to_write:
        out().print(Text(f"to write   {', '.join(drafted.to_write)}"), soft_wrap=True)
    if drafted.to_check:
        out().print(Text(f"guessed    {'; '.join(drafted.to_check)}"), soft_wrap=True)
    out().print(Text(f"next       evopolicygym check environment {file}"), soft_wrap=True)


def _argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--argument {text!r} is not of the form NAME=VALUE, such as obs_type=ram or use_lidar=false.")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
