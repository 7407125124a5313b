"""Tables of packs: what each task is, the result of its check, and which tasks are not available.

They are made from the packs' own declarations and the shipped records; no simulator is loaded.
"""

from collections.abc import Iterable
from statistics import median

from evopolicygym.analysis.tables.table import Cell, Table, cell_text, table_of
from evopolicygym.core.pack import CheckedTask, Pack, PackRecord, PackTask
from evopolicygym.specs.pack_catalog import shipped_record

OF_PACKS = (
    *("pack", "tasks", "checked", "passed", "repeat", "least steps a second", "median", "most"),
    *("played on", "day"),
)
OF_CHECKS = ("task", "repeats", "steps a second", "random mean", "episodes")
OF_COSTS = ("seconds an episode", "MB")
"""Of checks that measured them."""
OF_TASKS = ("task", "kind", "limit", "observation", "action", "success")
LEDGER = ("family", "what", "tasks, about", "why not")


def packs_table(packs: Iterable[Pack]) -> Table:
    """Return a row for each pack whose check ships."""
    checked = ((pack, record) for pack in packs if (record := shipped_record(pack.name)))
    return table_of("Checks of packs", OF_PACKS, (_pack_row(pack, record) for pack, record in checked))


def checks_table(pack: Pack) -> Table:
    """Return the result of each task's check; no rows if no check ships."""
    record = shipped_record(pack.name)
    tasks = record.tasks if record else ()
    costs = any(task.memory_mb for task in tasks)
    rows = (_check_row(task) + ((task.episode_seconds, task.memory_mb) if costs else ()) for task in tasks)
    return table_of(f"Check of {pack.name}", (*OF_CHECKS, *(OF_COSTS if costs else ())), rows)


def tasks_table(pack: Pack) -> Table:
    """Return the properties of each task of a pack: its kind, its limit, its spaces, and its criterion of success.

    What all tasks have in common is said once, in a note.
    """
    record = shipped_record(pack.name)
    rows = [_task_row(task, record.task(task.name) if record else None) for task in pack.tasks]
    table = table_of(f"Tasks of {pack.name}", OF_TASKS, rows)
    same = [at for at, cells in enumerate(zip(*rows, strict=True)) if at and len(rows) > 1 and len(set(cells)) == 1]
    notes = (f"The {OF_TASKS[at]} of every task: {cell_text(rows[0][at])}." for at in same if rows[0][at] is not None)
    kept = [at for at in range(len(OF_TASKS)) if at not in same]
    columns = tuple(table.columns[at] for at in kept)
    return Table(table.title, columns, tuple(tuple(row[at] for at in kept) for row in rows), tuple(notes))


def ledger_table(packs: Iterable[Pack]) -> Table:
    """Return the tasks of each family that are not available, and why."""
    rows = ((pack.name, item.what, item.tasks, item.reason) for pack in packs for item in pack.unavailable)
    return table_of("What can't be had", LEDGER, rows)


def _pack_row(pack: Pack, record: PackRecord) -> tuple[Cell, ...]:
    speeds = [task.steps_per_second for task in record.tasks if task.steps_per_second] or [0]
    return (
        pack.name,
        len(pack.tasks),
        len(record.tasks),
        sum(task.ok for task in record.tasks),
        sum(bool(task.repeats) for task in record.tasks),
        *(round(part(speeds)) for part in (min, median, max)),
        ", ".join(f"{name} {version}" for name, version in record.versions.items()),
        record.date,
    )


def _check_row(task: CheckedTask) -> tuple[Cell, ...]:
    times = "once" if task.repetitions is None else f"{task.repetitions} times"
    repeats = None if task.repeats is None else times if task.repeats else "no"
    return task.name, repeats, task.steps_per_second, task.random_mean, task.random_episodes


def _task_row(task: PackTask, checked: CheckedTask | None) -> tuple[Cell, ...]:
    return (
        task.name,
        task.kind.value,
        task.max_steps or (checked.max_steps if checked else None),
        (checked.observation or None) if checked else None,
        (checked.action or None) if checked else None,
        task.success.meaning if task.success else None,
    )
