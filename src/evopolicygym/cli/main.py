"""The program ``evopolicygym``: its verbs, and its error messages and exit codes.

Each verb is a file of its name in a folder of ``verbs/``, and the folder is its heading in ``--help``. The file defines
``EXAMPLES`` and a function of the verb's name, or ``app`` if the verb has subcommands. It is imported when the verb is
called; ``--help`` reads only the first line of each file.
"""

import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from evopolicygym.cli.interruption import INTERRUPTED
from evopolicygym.cli.output import print_error
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.core.shortage import shortage_as_error
from evopolicygym.version import __version__

HELP = """
How well does an agent improve a policy through feedback?

An agent edits a policy, submits it for a few episodes, reads the feedback and edits again, until its budget is spent.
The best checkpoint is selected on hidden cases and scored on others.

First: evopolicygym run acrobot
"""
EPILOG = (
    "Exit codes: 0 done, 1 failed, 2 invalid request, 3 record damaged or in use, 4 simulator or sandbox "
    "failed, 5 agent could not start (or failed, with --fail-on-agent-error), 130 interrupted (resume continues)."
)
PACKAGE = "evopolicygym.cli.verbs"
VERBS_DIRECTORY = Path(__file__).with_name("verbs")
"""A path, because importing importlib.resources is slow."""
HEADINGS = {"play": "Play", "look": "Look", "check": "Check"}
"""The folders of verbs, in order, each with its heading."""
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


class Verbs(MutableMapping[str, Any]):
    """The verbs by name, in the order of ``--help``; each is loaded on first access."""

    def __init__(self) -> None:
        files = [(folder, file) for folder in HEADINGS for file in sorted((VERBS_DIRECTORY / folder).glob("[!_]*.py"))]
        self._files = {file.stem.replace("_", "-"): (folder, file) for folder, file in files}
        """The folder and the file of each verb."""
        self._loaded: dict[str, Any] = {}

    @property
    def sections(self) -> dict[str, dict[str, str]]:
        """Summaries of verbs by heading and name."""
        sections: dict[str, dict[str, str]] = {heading: {} for heading in HEADINGS.values()}
        for name, (folder, file) in self._files.items():
            with file.open(encoding="utf-8") as lines:
                sections[HEADINGS[folder]][name] = summary_of(lines.readline())
        return sections

    def summaries(self) -> dict[str, Any]:
        """Return commands that have only a name and a summary."""
        return {
            name: TyperCommand(name, help=summary)
            for verbs in self.sections.values()
            for name, summary in verbs.items()
        }

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a command of typer's
        if name not in self._loaded:
            folder, file = self._files[name]
            self._loaded[name] = _load_command(name, f"{PACKAGE}.{folder}.{file.stem}")
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:  # noqa: ANN401 - as above
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._files[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


class VerbGroup(TyperGroup):
    """The command group of all verbs. Its ``--help`` is plain text, ten times as fast as boxes."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - typer's
        super().__init__(**settings)
        self.commands = Verbs()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's
        """Print help if there are no arguments."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - typer's
        """Return the names of all verbs without loading them."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's
        """Write the program's description, its verbs by heading, and its options."""
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        for paragraph in (self.help or "").strip().split("\n\n"):
            formatter.write_text(" ".join(paragraph.split()))
            formatter.write_paragraph()
        for heading, verbs in self.commands.sections.items():  # type: ignore[attr-defined] # ours
            with formatter.section(typer.style(heading, bold=True)):
                formatter.write_dl(list(verbs.items()))
        options = [record for parameter in self.get_params(ctx) if (record := parameter.get_help_record(ctx))]
        with formatter.section(typer.style("Options", bold=True)):
            formatter.write_dl(options)
        formatter.write_paragraph()
        formatter.write_text(self.epilog or "")

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:  # noqa: ANN401 - typer's
        """Complete verbs and options without loading a verb."""
        verbs, self.commands = self.commands, self.commands.summaries()  # type: ignore[attr-defined] # ours
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = verbs


def summary_of(first_line: str) -> str:
    """Return a verb's summary from the first line of its file."""
    summary = first_line.strip().strip('"').partition("``: ")[2]
    return summary[:1].upper() + summary[1:]


def _load_command(name: str, module_name: str) -> Any:  # noqa: ANN401 - typer's
    """Import a verb and return its command."""
    module = import_module(module_name)
    verb: typer.Typer | None = getattr(module, "app", None)
    if verb is None:
        verb = typer.Typer(rich_markup_mode="rich", add_completion=False)
        verb.command(name, epilog=module.EXAMPLES)(getattr(module, name.replace("-", "_")))
    verb.info.context_settings = SETTINGS
    return typer.main.get_command(verb)


app = typer.Typer(
    cls=VerbGroup,
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)


def _print_version(is_requested: bool) -> None:  # noqa: FBT001 - typer's contract
    if is_requested:
        typer.echo(f"evopolicygym {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the program itself."""


def main() -> None:
    """Run the program and exit with its exit code."""
    try:
        with shortage_as_error():
            app()
    except EvoPolicyGymError as error:
        print_error(str(error))
        sys.exit(error.exit_code)
    except OSError as error:
        print_error(f"{error.filename}: {error.strerror}." if error.filename and error.strerror else str(error))
        sys.exit(EvoPolicyGymError.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
