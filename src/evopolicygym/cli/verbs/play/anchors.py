"""``evopolicygym anchors``: measure the scores of random play, idling, early endings and the reference policy."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from evopolicygym.cli.interruption import interruptible
from evopolicygym.cli.options import complete_environment
from evopolicygym.cli.output import err, out, print_json, print_text, print_warning
from evopolicygym.cli.play_options import parse_json_pairs
from evopolicygym.core.options import LOCAL
from evopolicygym.core.task import EnvironmentSpec, TaskText
from evopolicygym.core.text import number, plus_minus
from evopolicygym.runs.anchors import CASES, AnchorKind, MeasuredAnchors, measure_anchors
from evopolicygym.runs.environment import resolve_environment
from evopolicygym.runs.preflight import cap_workers
from evopolicygym.specs import measured_anchors
from evopolicygym.specs.catalog import pack_lines, spec_lines
from evopolicygym.specs.pack_catalog import find

EXAMPLES = """
Examples:

evopolicygym anchors LunarLander-v3 --cases 64

evopolicygym anchors acrobot --kind reference --cases 16

evopolicygym anchors mine.toml

evopolicygym anchors ALE/Tetris-v5 NetHackScore-v0 --json > anchors.json
"""


def anchors(
    environments: Annotated[
        list[str],
        typer.Argument(
            metavar="ID|SPEC.toml…",
            help="Environments: names, ids that gymnasium knows, or specs' .toml files.",
            autocompletion=complete_environment,
        ),
    ],
    cases: Annotated[
        int, typer.Option(min=2, help="How many of the first held-out cases of the public split to play.")
    ] = CASES,
    kinds: Annotated[
        list[AnchorKind] | None,
        typer.Option("--kind", help="Measure only this kind; may be given several times. Default: all that exist."),
    ] = None,
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="MODULE", help="A module that registers the ids; may be given several times."),
    ] = None,
    make: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An argument of gymnasium.make; may be given several times."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Episodes that play at once.", show_default="one a core")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, without progress.")] = False,
) -> None:
    """Measure anchors, the mean returns of known policies, and print them as TOML for a spec or a pack.

    The degenerate policy ends episodes early; it is measured if that pays. The reference policy is hand-written; not
    every environment has one.
    """
    arguments = parse_json_pairs("--make", make or ())
    specs = [resolve_environment(name, TaskText.FULL, imports or (), arguments)[0] for name in environments]
    count = cap_workers(workers, LOCAL, print_warning)
    results: list[MeasuredAnchors] = []
    with interruptible():
        for spec in specs:
            with _progress(spec, cases, as_json=as_json) as observe:
                results.append(measure_anchors(spec, cases, kinds, count, observe))
            _keep(results[-1])
            if not as_json:
                _show(results[-1], is_in_pack=not arguments and find(spec.name) is not None)
    if as_json:
        print_json([_document(measured) for measured in results])


def _show(measured: MeasuredAnchors, *, is_in_pack: bool) -> None:
    """Print a table of anchors, and the lines to put into a spec or a pack."""
    table = Table(box=None, padding=(0, 1), header_style="dim", title=Text(measured.spec.name), title_justify="left")
    for heading in ("anchor", "mean ± s.e.", "success", "cases", "steps", "seconds an episode"):
        table.add_column(heading, justify="left" if heading == "anchor" else "right")
    for kind, played in measured.by_kind.items():
        anchor = played.anchor
        rate = "-" if anchor.success_rate is None else f"{anchor.success_rate:.1%}"
        mean = plus_minus(anchor.mean, anchor.standard_error)
        row = (mean, rate, str(anchor.episodes), number(played.mean_steps, 1), number(played.seconds))
        table.add_row(kind.value, *row)
    out().print(table)
    if measured.degenerate_policy:
        out().print(Text(f"degenerate {measured.degenerate_policy}"), soft_wrap=True)
    by_kind = {kind.value: played.anchor for kind, played in measured.by_kind.items()}
    if is_in_pack:
        print_text(pack_lines(measured.spec.name, measured.spec.max_steps, by_kind, measured.degenerate_policy))
    else:
        print_text(spec_lines(by_kind, measured.degenerate_policy))


def _keep(measured: MeasuredAnchors) -> None:
    """Keep what was measured, so that tables of earlier runs find it."""
    fields = {f"{kind.value}_anchor": played.anchor for kind, played in measured.by_kind.items()}
    measured_anchors.keep(
        measured.spec, measured_anchors.MeasuredAnchors(**fields, degenerate_policy=measured.degenerate_policy)
    )


def _document(measured: MeasuredAnchors) -> dict[str, Any]:
    kinds = {kind.value: asdict(played) for kind, played in measured.by_kind.items()}
    return {
        "environment": measured.spec.name,
        "max_steps": measured.spec.max_steps,
        "degenerate_policy": measured.degenerate_policy,
        "anchors": kinds,
    }


@contextmanager
def _progress(spec: EnvironmentSpec, cases: int, *, as_json: bool) -> Iterator[Any]:
    """Show progress on stderr; yield the function to call with the policy and the number of episodes done."""
    if as_json:
        yield lambda _what, _done: None
        return
    with err().status(f"{spec.name}: starting") as status:
        yield lambda what, done: status.update(f"{spec.name}: {what}" + (f" {done}/{cases}" if done else ""))
