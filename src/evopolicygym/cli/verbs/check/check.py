"""``evopolicygym check``: check a part of yours: an environment, a sandbox, an executor or an agent."""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from evopolicygym.checks.agent import check as check_agent
from evopolicygym.checks.environment import check as check_environment
from evopolicygym.checks.executor import check as check_executor
from evopolicygym.checks.sandbox import check as check_sandbox
from evopolicygym.checks.sandbox import check_channels
from evopolicygym.cli.completion import KINDS, complete_kind, complete_part
from evopolicygym.cli.console import err, out, say_json
from evopolicygym.cli.interruption import interruptible
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.finding import Finding
from evopolicygym.runs.config import from_anywhere
from evopolicygym.specs.catalog import load

EXAMPLES = """
Examples:

evopolicygym check environment acrobot

evopolicygym check environment my_environment.toml

evopolicygym check sandbox bubblewrap

evopolicygym check sandbox bubblewrap --channels   (a search for ways to leave a mark; a minute)

evopolicygym check sandbox my_package.my_module:Backend --json

evopolicygym check executor ray --address 10.0.0.1:6379

evopolicygym check agent codex   (a scripted model answers: no key, no cost)

evopolicygym check agent my_package.my_module:make

evopolicygym check agent command -- /opt/agent/run

evopolicygym check agent codex --model gpt-5.5   (with the real model; it costs some tokens)
"""


def check(
    kind: Annotated[
        str, typer.Argument(help="What it is: environment, sandbox, executor or agent.", autocompletion=complete_kind)
    ],
    name: Annotated[str, typer.Argument(help="Its name, as a run would name it.", autocompletion=complete_part)],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND …]", help="The program of the agent 'command'.")
    ] = None,
    model: Annotated[
        str,
        typer.Option(help="An agent's model. Without one, or as 'scripted', a scripted model answers, for nothing."),
    ] = "",
    model_url: Annotated[str, typer.Option(help="The model's server, as for a run.")] = "",
    model_key: Annotated[
        str, typer.Option(metavar="VARIABLE", help="The environment variable that holds its key.")
    ] = "",
    model_wire: Annotated[str, typer.Option(help="What it speaks: responses, chat, messages or gemini.")] = "",
    patience: Annotated[float, typer.Option(min=1, help="Seconds that an agent has for each half of its run.")] = 300.0,
    address: Annotated[str, typer.Option(help="An executor's cluster, as a run would be given it.")] = "",
    channels: Annotated[
        bool,
        typer.Option("--channels", help="Of a sandbox: search all that its filter allows for ways to leave a mark."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check that a part keeps its contract. Exit code 1 if it doesn't.

    An environment is played for some seconds.

    A sandbox is attacked by hostile policies for a minute; what it guarantees must hold.

    An executor plays the same cases as this machine alone, and must come to the same episodes and files.

    An agent plays a short run that is stopped in the middle and resumed; nothing of it may be left.
    """
    if kind not in KINDS:
        raise UnknownName("kind of check", kind, KINDS)
    if channels and kind != "sandbox":
        raise UsageError(f"A check of kind {kind!r} searches no channels; that of a sandbox does.")
    if address and kind != "executor":
        raise UsageError(f"A check of kind {kind!r} has no address; an executor has.")
    model_options = {"model_url": model_url, "model_key": model_key, "model_wire": model_wire}
    options = {word: text for word, text in model_options.items() if text}

    def begun(progress: Callable[[str], None]) -> Iterator[Finding]:
        match kind:
            case "environment":
                return check_environment(load(name))
            case "sandbox":
                return check_channels(name, progress) if channels else check_sandbox(name)
            case "executor":
                return check_executor(name, address)
            case _:
                return check_agent(name, model, options, from_anywhere(command or ()), patience)

    with interruptible():
        found = _shown(begun, name, as_json=as_json)
    ok = all(one.ok for one in found)
    if as_json:
        say_json({"kind": kind, "name": name, "ok": ok, "findings": [_document(one) for one in found]})
    if not ok:
        raise typer.Exit(1)


def _shown(begun: Callable[[Callable[[str], None]], Iterator[Finding]], name: str, *, as_json: bool) -> list[Finding]:
    """Take a check's findings and return them; print a table of them, line by line as they come where one can watch."""
    found: list[Finding] = []
    if as_json or not out().is_terminal:
        with err().status(f"checking {name}") as status:
            for one in begun(lambda what: status.update(f"checking {name}: {what}")):
                found.append(one)
                status.update(f"checking {name}: {len(found)} findings, last {one.name}")
        if not as_json:
            out().print(_table(found))
        return found
    waiting = Spinner("dots", f"checking {name}")
    with Live(waiting, console=out()) as live:
        for one in begun(lambda what: waiting.update(text=f"checking {name}: {what}")):
            found.append(one)
            live.update(Group(_table(found), waiting))
        live.update(_table(found))
    return found


def _document(one: Finding) -> dict[str, Any]:
    return {"name": one.name, "ok": one.ok, "detail": one.detail, **one.more}


def _table(found: Sequence[Finding]) -> Table:
    promised = [one for one in found if one.promised]
    others = f"; {len(found) - len(promised)} not promised" if len(promised) < len(found) else ""
    caption = f"{sum(one.ok for one in promised)} of {len(promised)} passed{others}"
    table = Table(box=None, padding=(0, 1), show_header=False, caption=caption, caption_justify="left")
    titled = any(one.title for one in found)
    for one in found:
        if not one.ok:
            mark = Text(one.verdict or "FAILED", "bold red")
        else:
            mark = Text(one.verdict or "ok", "green" if one.promised else "yellow")
        columns = [Text(one.name), *([Text(one.title)] if titled else []), Text(one.detail, "dim")]
        table.add_row(mark, *columns)
    if titled:
        for column in table.columns[:2]:
            column.no_wrap = True
    return table
