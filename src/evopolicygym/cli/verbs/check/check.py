"""``evopolicygym check``: check a part of yours: an environment, a sandbox, an executor or an agent."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from evopolicygym.checks.agent import check as check_agent
from evopolicygym.checks.attack import attacks
from evopolicygym.checks.attack_suite import ENVIRONMENT, Verdict, besiege
from evopolicygym.checks.channel_search import search
from evopolicygym.checks.environment import Finding
from evopolicygym.checks.executor import compare
from evopolicygym.checks.patient_check import check_in_time
from evopolicygym.cli.completion import KINDS, complete_kind, complete_part
from evopolicygym.cli.console import err, out, say_json
from evopolicygym.cli.interruption import interruptible
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.errors import UnknownName, UsageError
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

    A sandbox is attacked by hostile policies for a minute; what its level promises must hold.

    An executor plays the same cases as this machine alone, and must come to the same episodes and files.

    An agent plays a short run that is put down in the middle and taken up again; nothing of it may be left.
    """
    if channels and kind != "sandbox":
        raise UsageError(f"A check of kind {kind!r} searches no channels; that of a sandbox does.")
    if address and kind != "executor":
        raise UsageError(f"A check of kind {kind!r} has no address; an executor has.")
    with interruptible():
        match kind:
            case "environment":
                ok, findings, table = _environment(name)
            case "sandbox":
                ok, findings, table = _channels(name) if channels else _sandbox(name)
            case "executor":
                ok, findings, table = _executor(name, address)
            case "agent":
                doors = {"model_url": model_url, "model_key": model_key, "model_wire": model_wire}
                options = {name: text for name, text in doors.items() if text}
                ok, findings, table = _agent(AgentConfig(name, model, options, from_anywhere(command or ())), patience)
            case _:
                raise UnknownName("kind of check", kind, KINDS)
    if as_json:
        say_json({"kind": kind, "name": name, "ok": ok, "findings": findings})
    else:
        out().print(table)
    if not ok:
        raise typer.Exit(1)


Checked = tuple[bool, list[dict[str, Any]], Any]
"""Whether all is well, the findings for a script, the table for a person."""


def _environment(name: str) -> Checked:

    with err().status(f"checking {name}"):
        return _told(list(check_in_time(load(name))))


def _executor(name: str, address: str) -> Checked:

    found: list[Finding] = []
    with err().status(f"checking {name}") as status:
        for one in compare(name, address):
            found.append(one)
            status.update(f"checking {name}: {one.name}")
    return _told(found)


def _agent(config: "AgentConfig", patience_s: float) -> Checked:

    with err().status(f"checking {config.name}: a short run on cartpole"):
        return _told(list(check_agent(config, patience_s)))


def _told(found: "Sequence[Finding]") -> Checked:
    findings = [{"name": one.name, "ok": one.ok, "detail": one.detail} for one in found]
    return all(one.ok for one in found), findings, _findings_table(found)


def _findings_table(found: "Iterable[Finding]") -> Any:  # noqa: ANN401 - rich loads late

    table = Table(box=None, padding=(0, 1), show_header=False)
    for one in found:
        mark = Text("ok", "green") if one.ok else Text("FAILED", "bold red")
        table.add_row(mark, Text(one.name), Text(one.detail, "dim"))
    return table


def _sandbox(name: str) -> Checked:

    verdicts: list[Verdict] = []
    with err().status(f"building sandbox {name}") as status:
        for verdict in besiege(name, load(ENVIRONMENT)):
            verdicts.append(verdict)
            status.update(f"attacking {name}: {len(verdicts)} of {len(attacks())}, last {verdict.attack.id}")
    findings = [
        {
            "name": one.attack.id,
            "ok": not one.broken,
            "detail": _happened(one),
            "attack": one.attack.name,
            "promised": one.promised,
            "held": one.held,
        }
        for one in verdicts
    ]
    return not any(one.broken for one in verdicts), findings, _verdicts_table(verdicts)


def _channels(name: str) -> Checked:

    with err().status(f"searching {name}") as status:
        found = search(name, load(ENVIRONMENT), lambda what: status.update(f"searching {name}: {what}"))
    calls = {call.partition("#")[0] for call in found.calls}
    kept = "nothing that one policy did was found by another" if not found.channels else "marks survive"
    unsteady = ", ".join(sorted(found.unsteady))
    return _told(
        [
            Finding("tried", ok=bool(calls), detail=f"{len(calls)} system calls in {len(found.calls)} ways"),
            Finding("steady", ok=not unsteady, detail=unsteady or "what is asked twice is answered alike"),
            Finding("channels", ok=not found.channels, detail=kept),
            *(
                Finding(one.found_by, ok=False, detail=f"after {', '.join(one.written_by)}{' at once' * one.at_once}")
                for one in found.channels
            ),
        ]
    )


def _verdicts_table(verdicts: "Sequence[Verdict]") -> Any:  # noqa: ANN401 - as above

    held = sum(one.promised and one.held for one in verdicts)
    table = Table(
        box=None,
        padding=(0, 1),
        header_style="dim",
        caption=f"{held} of {sum(one.promised for one in verdicts)} promised attacks held",
        caption_justify="left",
    )
    for heading in ("", "id", "attack", "what happened"):
        table.add_column(heading, no_wrap=heading in {"", "id"})
    for one in verdicts:
        if one.broken:
            mark = Text("NOT HELD", "bold red")
        elif one.promised:
            mark = Text("held", "green")
        else:
            mark = Text("not promised" if one.came else "not tried", "yellow")
        table.add_row(mark, Text(one.attack.id), Text(one.attack.name), Text(_happened(one), "dim"))
    return table


def _happened(verdict: "Verdict") -> str:
    """Return in a line what came of an attack: what is wrong with it, or else how its episodes ended."""
    came, faults = verdict.came, verdict.faults
    if came is None:
        return "nothing would keep it off this machine"
    if len(faults) > FAULTS_SHOWN:
        faults = (*faults[:FAULTS_SHOWN], f"and {len(faults) - FAULTS_SHOWN} more")
    endings = [f"{came.endings.count(end)} {end}" for end in dict.fromkeys(came.endings)]
    return "; ".join(faults) or ", ".join(endings) or came.status


FAULTS_SHOWN = 3
"""How many things that are wrong stand in one line."""
