"""``evopolicygym verify``: check a run's record; with --replay, play its score again."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import track
from rich.table import Table
from rich.text import Text

from evopolicygym.cli.interruption import interruptible
from evopolicygym.cli.options import Isolation, RunArgument, RunsBelow, Trust
from evopolicygym.cli.output import err, out, print_json, print_warning
from evopolicygym.core.check_result import CheckResult, Item, ReplayVerdict
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import RecordError
from evopolicygym.core.text import counted

if TYPE_CHECKING:
    from evopolicygym.api.read.verify import Verification

ROUNDING = 6
"""The exit code if a replay differs only by rounding."""
EXAMPLES = """
Examples:

evopolicygym verify RUN

evopolicygym verify runs/default   (all runs below it)

evopolicygym verify RUN --replay   (plays validation and held-out again, and selects again)

evopolicygym verify RUN --replay --agent   (asks the model again, too)
"""


def verify(
    run: RunArgument,
    replay: Annotated[bool, typer.Option("--replay", help="Play the hidden cases again.")] = False,
    agent: Annotated[
        bool, typer.Option("--agent", help="With --replay: ask the model again, compare answers.")
    ] = False,
    model_url: Annotated[str, typer.Option(help="The server to ask; default: the recorded one.")] = "",
    model_key: Annotated[str, typer.Option(help="Environment variable with its key.")] = "",
    workers: Annotated[int | None, typer.Option(min=1, help="Episodes that play at once.")] = None,
    executor: Annotated[str, typer.Option(help="Where episodes play: local, ray, or package.module:Class.")] = "local",
    address: Annotated[str, typer.Option(help="The executor's cluster: host:port, ray://host:port or auto.")] = "",
    isolation: Isolation = "auto",
    trust: Trust = False,
    nonce: Annotated[str, typer.Option(help="The board's nonce, which every run must have.")] = "",
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check records: chain, task, budget, checkpoints, feedback, score, commitment. Exit code 1 if a check fails.

    RUN may be a bundle or a directory with runs below it. Exit code 3 if a record can't be read at all.
    Exit code 6 if only a replay, on another processor or with other versions, differs, and by no more than rounding.
    """
    from evopolicygym.api.read import verify as records

    with interruptible():
        verification = records.verify(
            run,
            replay=replay,
            agent=agent,
            model_url=model_url,
            model_key=model_key,
            workers=workers,
            executor=executor,
            address=address,
            isolation=isolation,
            trust=trust,
            nonce=nonce,
            runs=below,
            follow=partial(_watch, as_json=as_json),
            on_warning=print_warning,
        )
    if as_json:
        documents = [_document(finding) for finding in verification]
        print_json({"run": str(verification.path), "ok": verification.ok, "findings": documents})
    else:
        _print(verification)
    if verification.is_unreadable:
        raise typer.Exit(RecordError.exit_code)
    if not verification.ok:
        raise typer.Exit(ROUNDING if verification.is_rounding else 1)


def _watch(cases: Iterable[Item], total: int, /, *, as_json: bool) -> Iterable[Item]:
    return track(cases, "playing again", total, console=err(), disable=as_json)


def _document(finding: CheckResult) -> dict[str, object]:
    verdict = {"verdict": finding.verdict} if finding.verdict else {}
    return {"what": finding.name, "ok": finding.ok, **verdict, "detail": finding.detail}


def _print(verification: "Verification") -> None:
    table = Table(box=None, padding=(0, 1), show_header=False)
    for finding in verification:
        mark = Text("ok", "green") if finding.ok else Text("FAILED", "bold red")
        if finding.verdict == ReplayVerdict.ROUNDING.value:
            mark = Text("ROUNDING", "yellow")
        table.add_row(mark, Text(finding.name), Text(finding.detail, "dim"))
    out().print(table)
    verdict = (
        f"verified: {counted(len(verification.findings), 'check')} passed"
        if verification.ok
        else f"FAILED: {', '.join(verification.failed)}"
    )
    out().print(Text(verdict, "bold green" if verification.ok else "bold red"), soft_wrap=True)
