"""``evopolicygym environments add``: drafts the TOML of a gymnasium id."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from evopolicygym.cli.output import out
from evopolicygym.core.errors import UsageError

EXAMPLES = """
Examples:

evopolicygym environments add Pendulum-v1

evopolicygym environments add gym_pusht/PushT-v0 --import gym_pusht -o push.toml

evopolicygym environments add ale_py:ALE/Pong-v5 --make obs_type=ram

PYTHONPATH=. evopolicygym environments add walk:Walk-v0   (registered in your walk.py)
"""


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
    """Draft the TOML of an environment of your own from a gymnasium id; its texts are left to you."""
    from evopolicygym.environments.draft import draft, file_name

    file = output or Path(file_name(gymnasium_id))
    if file.suffix != ".toml":
        raise UsageError(
            f"{file} can't be an environment's file: its name must end with .toml, as in {file.stem}.toml."
        )
    if file.exists():
        raise UsageError(f"{file} already exists and is not overwritten; name another file with -o.")
    given = dict(map(_argument, make or ()))
    try:
        drafted = draft(gymnasium_id, tuple(imports or ()), given, file.stem)
    except UsageError as error:
        raise UsageError(f"{error} On the command line, --import MODULE or MODULE:ID names one.") from error
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
    out().print(Text(f"to check   evopolicygym check environment {file}"), soft_wrap=True)
    out().print(Text(f"next       evopolicygym anchors {file}"), soft_wrap=True)


def _argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--make {text!r} is not of the form NAME=VALUE, such as obs_type=ram or use_lidar=false.")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
