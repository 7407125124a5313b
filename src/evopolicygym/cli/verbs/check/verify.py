"""``evopolicygym verify``: check a run's record; with --replay, play its score again."""

from typing import Annotated, Any

import typer
from rich.progress import track
from rich.table import Table
from rich.text import Text

from evopolicygym.cli.console import err, out, say_json
from evopolicygym.cli.interruption import interruptible
from evopolicygym.cli.replay_options import Isolation, Trust
from evopolicygym.cli.run_argument import RunArgument, RunsBelow, run_meant
from evopolicygym.cli.workers import capped_with_note
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.records.reader import read_run
from evopolicygym.runs.replay import Verdict, judged
from evopolicygym.runs.replay import replay as play_again
from evopolicygym.runs.revisit import Means
from evopolicygym.runs.verify import findings

ROUNDING = 6
"""The exit code where a replay differs by no more than rounding."""
EXAMPLES = """
Examples:

evopolicygym verify RUN

evopolicygym verify RUN --replay   (plays the held-out cases again and compares every trajectory)
"""


def verify(
    run: RunArgument,
    replay: Annotated[bool, typer.Option("--replay", help="Play the held-out cases again.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Episodes that play at once.")] = None,
    executor: Annotated[str, typer.Option(help="Where episodes play: local, ray, or package.module:Class.")] = "local",
    address: Annotated[str, typer.Option(help="The executor's cluster: host:port, ray://host:port or auto.")] = "",
    isolation: Isolation = "auto",
    trust: Trust = False,
    below: RunsBelow = DEFAULT_RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check a run's record: chain, budget, checkpoints, feedback, score, commitment. Exit code 1 if it fails.

    Exit code 6 where all holds but that a replay, by another arithmetic or other versions, differs by rounding.
    """
    run = run_meant(run, below)
    audited, is_rounding = list(findings(run)), False
    found: list[dict[str, Any]] = [{"what": one.name, "ok": one.ok, "detail": one.detail} for one in audited]
    if replay and all(one.ok or one.settled_by_replay for one in audited):
        total = read_run(run).state.opened.task.held_out_cases
        again = play_again(run, Means(capped_with_note(workers, executor), executor, address, isolation, trust))
        with interruptible():
            played = list(track(again, "playing held-out again", total, console=err(), disable=as_json))
        verdict, detail = judged(played)
        if played:
            detail += f"; played at isolation {played[0].isolation}"
        if versions := next((one.other_versions for one in played), ()):
            detail += f"; under other versions: {', '.join(versions)}"
        found.append({"what": "replay", "ok": verdict is Verdict.SAME, "verdict": verdict.value, "detail": detail})
        for one, finding in zip(found, audited, strict=False):
            if finding.settled_by_replay and verdict is not Verdict.DIFFERENT:
                one |= {"ok": True, "detail": "its files were left out of this record; the replay stands for them"}
        is_rounding = verdict is Verdict.ROUNDING
    if as_json:
        say_json({"run": str(run), "ok": all(one["ok"] for one in found), "findings": found})
    else:
        _print(found)
    wrong = [one["what"] for one in found if not one["ok"]]
    if wrong:
        raise typer.Exit(ROUNDING if is_rounding and wrong == ["replay"] else 1)


def _print(found: list[dict[str, Any]]) -> None:

    table = Table(box=None, padding=(0, 1), show_header=False)
    for one in found:
        mark = Text("ok", "green") if one["ok"] else Text("FAILED", "bold red")
        if one.get("verdict") == "rounding":
            mark = Text("ROUNDING", "yellow")
        table.add_row(mark, Text(one["what"]), Text(one["detail"], "dim"))
    out().print(table)
    failed = [one["what"] for one in found if not one["ok"]]
    verdict = f"FAILED: {', '.join(failed)}" if failed else f"verified: all {len(found)} checks hold"
    out().print(Text(verdict, "bold red" if failed else "bold green"), soft_wrap=True)
