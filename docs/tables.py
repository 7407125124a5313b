"""Write the generated tables of the docs: ``python docs/tables.py``, or ``make docs``.

Each is between a line ``<!-- table: NAME -->`` and a line ``<!-- end of table -->``.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from evopolicygym.analysis.diagnostic import DIAGNOSTICS
from evopolicygym.analysis.tables.packs import checks_table, ledger_table, packs_table
from evopolicygym.analysis.tables.table import Table, cell_text, format_tables, in_markdown
from evopolicygym.api.read.results import headroom, leaderboard
from evopolicygym.checks import KINDS
from evopolicygym.checks.new_package import template
from evopolicygym.core.options import RUN_OPTIONS, Option
from evopolicygym.core.task import Anchor
from evopolicygym.core.text import plus_minus
from evopolicygym.records.reader import read_run
from evopolicygym.runs.suites.suite import SuiteTask, load_suite, suite_task
from evopolicygym.specs import catalog, pack_catalog

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "results" / "examples" / "outside"
PAGES = (
    DOCS / "reference" / "command_line.md",
    DOCS / "measure" / "examples.md",
    DOCS / "measure" / "headroom.md",
    DOCS / "measure" / "frontier.md",
    DOCS / "measure" / "packs.md",
    DOCS / "measure" / "results.md",
    DOCS / "reference" / "environments.md",
    DOCS / "gallery.md",
    DOCS / "use" / "agents.md",
    DOCS / "use" / "cluster.md",
    DOCS / "use" / "data.md",
    DOCS / "use" / "report.md",
    DOCS / "use" / "tracking.md",
    DOCS / "measure" / "diagnostics.md",
    DOCS / "reference" / "security.md",
)
FILMS = DOCS / "pictures" / "films"
SHIPPED = ("paper", "references", "baselines", "published")
RANKED = ("paper", "anchors", "references", "baselines")
ACROSS = 4
"""Films per row."""
LEFT = (
    *("task", "random", "best known ± s.e.", "held by", "best agent", "its score", "left"),
    *("agents", "ratio", "at best", "verdict"),
)
OF_PACKS = ("frontier16", "control8", "minigrid8", "quick4")
"""Suites whose tasks come from packs."""
SUITE = (
    *("task", "pack", "why it is hard", "limit", "cases", "random ± s.e.", "success", "idle ± s.e."),
    *("degenerate ± s.e.", "reference ± s.e."),
)
HEADROOM = ("task", "kind", "0", "1", "whose", "seconds")
PLAYED_AFTER = ("16", "32", "64", "128")
"""Episodes."""
PLAYED_FIRST = ("task", "episodes", "submissions", "first")
PLAYED = (*PLAYED_FIRST, *(f"after {spent}" for spent in PLAYED_AFTER), "held-out ± s.e.", "share")
COLUMNS = ("submission", "parent", "edit", "lines", "validation", "gain", "hit", "new best", "hypothesis")
TABLE = re.compile(r"(<!-- table: ([^\n]*) -->\n).*?(<!-- end of table -->\n)", re.DOTALL)


def options_table(options: Iterable[Option]) -> str:
    """Return the table of options: flag, key in a TOML file, default, meaning."""
    rows = [
        f"| {_flags(one)} | `{'.'.join([*one.tables, one.key])}` | {one.default_shown} "
        f"| {one.details or _phrase(one.help)} |\n"
        for one in options
    ]
    return "".join(["| option | in a file | default | |\n", "|---|---|---|---|\n", *rows])


def edits_table(task: str) -> str:
    """Return the edits of an example, a row each."""
    (root,) = (EXAMPLES / task).iterdir()
    edits = DIAGNOSTICS.load("edits")
    return _narrowed(edits.table(edits.measure(read_run(root))), COLUMNS)


def headroom_table() -> str:
    """Return the headroom of Core16 by shipped data, a row for each task, with notes."""
    table = headroom([], SHIPPED).tables[0]
    return _narrowed(table, LEFT) + "\n" + "".join(f"- {in_markdown(note)}\n" for note in table.notes)


def scores_table() -> str:
    """Return the scores of all shipped results: tasks by entries, as ``leaderboard --show scores`` prints them."""
    return format_tables(leaderboard(tables=RANKED, show="scores").arranged(), "markdown")


def films_table() -> str:
    """Return the films of Core16, some in a row, each with its task and the score of its reference policy."""
    cells = []
    for file in sorted(FILMS.glob("*.webp")):
        if file.stem in catalog.names():
            spec = catalog.load(file.stem)
            link = f"[{spec.name}](reference/environments.md#core16)"
            score = f"{spec.reference_anchor.mean:,.4g}" if spec.reference_anchor else "-"
            cells.append(f"![{spec.id}](pictures/films/{file.name})<br>{link}: {score}")
    rows = [cells[at : at + ACROSS] for at in range(0, len(cells), ACROSS)]
    table = "|  " * ACROSS + "|\n" + "| --- " * ACROSS + "|\n"
    return table + "".join(f"| {' | '.join([*row, *[''] * (ACROSS - len(row))])} |\n" for row in rows)


def suite_table(name: str) -> str:
    """Return the tasks of a suite, a row each: why it is hard, its limit, and scores of known policies."""
    rows = [_task_row(suite_task(one)) for one in load_suite(name, {}).environments]
    return "".join(f"| {' | '.join(row)} |\n" for row in [SUITE, ["---"] * len(SUITE), *rows])


def whole(make: Callable[..., Table], *asked: object) -> str:
    """Return all columns of a table, without its title."""
    return format_tables([make(*asked)], "markdown").partition("\n\n")[2]


def catalogue_table() -> str:
    """Return the families that have tasks, with links to their pages."""
    rows = [f"| [{one.name}](environments/{one.name}.md) | {in_markdown(one.title)} | {len(one.tasks)} |\n"
            for one in PACKS if one.tasks]  # fmt: skip
    return "".join(["| family | what | tasks |\n", "| --- | --- | ---: |\n", *rows])


def headroom_of_suite(name: str) -> str:
    """Return how far each task of a suite is from solved, a row each."""
    tasks = [(task, task.headroom) for task in map(suite_task, load_suite(name, {}).environments) if task.headroom]
    rows = [
        [
            f"`{task.name}`",
            found.kind,
            f"{task.zero:,.4g}" if task.zero is not None else "",
            f"{found.best_known:,g}",
            found.source,
            f"{found.seconds:g}",
        ]
        for task, found in tasks
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in [HEADROOM, ["---"] * len(HEADROOM), *rows])


def played_table(name: str) -> str:
    """Return the examples of a suite: the best validation mean after some episodes, and the score as a share."""
    rows = []
    for task in map(suite_task, load_suite(name, {}).environments):
        for root in sorted((EXAMPLES / task.name).glob("*")):
            record = read_run(root)
            curve, score = DIAGNOSTICS.load("learning_curve").measure(record), record.state.held_out()
            if score is None:
                continue
            candidates = [point for point in curve.points if point.best is not None]
            bests = [
                max((point.best for point in candidates if point.spent <= spent), default=None)
                for spent in (candidates[0].spent, *map(int, PLAYED_AFTER))
            ]
            share = task.normalised(score.mean)
            rows.append([
                f"`{task.name}`", str(record.state.budget - record.state.remaining), str(len(curve.points)),
                *("-" if best is None else f"{best:,.4g}" for best in bests),
                plus_minus(score.mean, score.standard_error), "-" if share is None else f"{share:.2f}",
            ])  # fmt: skip
    return "".join(f"| {' | '.join(row)} |\n" for row in [PLAYED, ["---"] * len(PLAYED), *rows])


def whole_module(kind: str) -> str:
    """Return the module that ``evopolicygym new`` writes for a kind of part, as a block of code."""
    name = f"my_{kind}"
    return f"```python\n{template(kind, name)[f'{name}/__init__.py']}```\n"


PACKS = tuple(map(pack_catalog.load, pack_catalog.names()))
TABLES: dict[str, Callable[[], str]] = {
    "options of a run": partial(options_table, RUN_OPTIONS),
    "headroom of Core16": headroom_table,
    "scores of shipped results": scores_table,
    "films of Core16": films_table,
    **{f"tasks of {name}": partial(suite_table, name) for name in OF_PACKS},
    "headroom of frontier16": partial(headroom_of_suite, "frontier16"),
    "examples of frontier16": partial(played_table, "frontier16"),
    **{f"edits of {task}": partial(edits_table, task) for task in ("parking", "key_corridor", "car_racing")},
    "catalogue": catalogue_table,
    "checks of packs": partial(whole, packs_table, PACKS),
    "what can't be had": partial(whole, ledger_table, PACKS),
    **{f"module of {kind}": partial(whole_module, kind) for kind in KINDS},
    **{f"check of {pack.name}": partial(whole, checks_table, pack) for pack in PACKS},
}


def with_tables(text: str) -> str:
    """Return a page with its tables regenerated."""
    return TABLE.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[3]}", text)


def _narrowed(table: Table, headings: Sequence[str]) -> str:
    """Return some columns of a table."""
    places = [next(at for at, one in enumerate(table.columns) if one.heading == name) for name in headings]
    rows = ([cell_text(row[place]) for place in places] for row in table.rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in [headings, ["---"] * len(headings), *rows])


def _task_row(task: SuiteTask) -> list[str]:
    kinds = ", ".join(task.challenge.kinds) if task.challenge else ""
    why = f"{kinds}. {task.challenge.why}" if task.challenge else ""
    measured = task.random or task.idle
    rate = task.random.success_rate if task.random else None
    return [
        f"`{task.name}`",
        task.pack,
        why,
        f"{task.max_steps:,}" if task.max_steps else "",
        str(measured.episodes) if measured else "",
        _anchor(task.random),
        "" if rate is None else f"{rate:.1%}",
        *map(_anchor, (task.idle, task.degenerate, task.reference)),
    ]


def _anchor(anchor: Anchor | None) -> str:
    return plus_minus(anchor.mean, anchor.standard_error) if anchor else ""


def _phrase(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _flags(option: Option) -> str:
    return f"`{option.flag}`" if option.flag else "`-- COMMAND …`"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
