"""The groups of comparable runs, each of which may share a table, and how others differ; labels of entries."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evopolicygym.analysis.published.score_tables import PublishedTable
from evopolicygym.core.errors import UnknownName, UsageError
from evopolicygym.core.options import RUN_OPTIONS, format_setting
from evopolicygym.core.rollout import brief
from evopolicygym.records.rows import RunRow
from evopolicygym.records.tables import FURTHER

COMPARED: Mapping[str, str] = {
    "commitment": "commitment to the cases",
    "revealed": "whether its cases were revealed before it began",
    "versions": "fingerprint, in versions of packages",
    "simulator_code": "fingerprint, in the simulator's code",
    "task_fingerprint": "fingerprint, in the environment's spec",
    "protocol_version": "protocol version",
    "agent_version": "version of the agent's tool",
    "model_details": "the model as its server tells it, or its sampling",
    "limits": "limits of the agent",
    **{
        option.record_field or option.name: option.comparability_label
        for option in RUN_OPTIONS
        if option.comparability_label
    },
}
"""The properties that runs on a task must share, with their labels; options declare the last ones."""
OPTIONS = {option.name: option for option in FURTHER}
BY_NAME = frozenset({"versions", "simulator_code", "model_details"})
"""Properties that map names to texts."""
HASHES = frozenset({"commitment", "task_fingerprint"})
"""Properties that are shown by their first characters."""
UNKNOWN_TO_SOME = frozenset({"held_out_cases", "simulator_code", "finish", "agent_version", "model_details"})
"""Properties that a run may leave open; an open property is not a difference."""
WITHIN_ENTRIES = frozenset({"agent_version", "model_details", "limits"})
"""Properties that only the repeats of an entry must share: those of different agents differ anyway."""
OF_ENTRIES = WITHIN_ENTRIES | frozenset(
    option.record_field or option.name
    for option in RUN_OPTIONS
    if option.comparability_label and not option.affects_cases
)
"""Properties that entries may be split by."""
CASES_BY = frozenset({"experiment", "split"})
"""Entries that are split by one of these may play other cases than one another; repeats are still pooled on the same
cases only."""
SHORT = 8
"""Characters of an experiment's identity that are shown."""
SPLIT_BY: tuple[str, ...] = (
    *("experiment", "seed", "split", "isolation", "agent_kind", "model", "effort"),
    *sorted(OF_ENTRIES),
)
"""The properties that entries can be split by, besides their label."""


@dataclass(frozen=True, slots=True)
class ComparableRuns:
    """Runs that are comparable."""

    title: str
    """The properties that distinguish them from the other runs; empty if all runs are comparable."""
    runs: tuple[RunRow, ...]


def distinct_runs(runs: Sequence[RunRow]) -> tuple[list[RunRow], list[str]]:
    """Return the distinct runs, and a note about each run that was played more than once.

    Two runs of an entry are the same run if task, cases, settings and seed agree, and all results: every submission's
    checkpoint and every held-out return. A deterministic agent repeats a run so when it is started again with its seed.
    Runs with the same seed that differ are repeats: the seed does not determine their agent.
    """
    same: dict[str, list[RunRow]] = defaultdict(list)
    for run in runs:
        same[facts_of(run)].append(run)
    kept = [group[0] for group in same.values()]
    notes = [
        f"Counted once, as they are the same run: {len(group)} runs of {group[0].agent} on {group[0].task} with seed "
        f"{group[0].seed} (same submissions, same returns). Repeats need different seeds (--seed)."
        for group in same.values()
        if len(group) > 1
    ]
    return kept, notes


def shared_seeds(runs: Sequence[RunRow]) -> list[str]:
    """Return a note if repeats of an entry share a seed but are not the same run."""
    seeds: dict[tuple[str, str, str | None], list[int | None]] = defaultdict(list)
    for run in runs:
        seeds[run.agent, run.task, run.commitment].append(run.seed)
    shared = sorted({f"{label} on {task}" for (label, task, _), each in seeds.items() if len(set(each)) < len(each)})
    return [f"Repeats that share a seed but differ count each: {'; '.join(shared)}."] if shared else []


def facts_of(run: RunRow) -> str:
    """Return all properties and results of a run, without its id, its path and what it used."""
    settings = [property_of(run, name) for name in (*COMPARED, "effort", "program_sha256", "options_text")]
    results = (run.status, run.spent, run.checkpoints, run.held_out_returns, run.success_rate, run.tokens)
    return repr((run.agent, run.task, run.seed, settings, results))


def property_of(run: RunRow, name: str) -> Any:  # noqa: ANN401 - any property's
    """Return a run's property by its name; an option's that is among the choices, or its default."""
    if name not in OPTIONS:
        return getattr(run, name)
    return run.choices.get(name, format_setting(OPTIONS[name].default))


def comparability_notes(runs: Sequence[RunRow], by: Sequence[str], *, mix: bool) -> list[str]:
    """Return notes on the differences between runs; raise ``UsageError`` for any unless ``mix``.

    What entries are split by (``by``) is no difference.
    """
    reasons = differences(runs, by)
    if reasons and not mix:
        listed = "\n- ".join(reasons.values())
        raise UsageError(f"These runs are not comparable. They differ in:\n- {listed}\n{_advice(list(reasons), runs)}")
    return [f"Mixed: {difference}" for difference in reasons.values()] if mix else cases_notes(runs, by)


def cases_notes(runs: Sequence[RunRow], by: Sequence[str]) -> list[str]:
    """Return a note if comparable entries, split by experiment or split, played different cases."""
    if CASES_BY.isdisjoint(by) or "commitment" not in differences(runs, set(by) - CASES_BY):
        return []
    return ["Entries of different experiments or splits played different cases."]


def comparable(runs: Sequence[RunRow], by: Sequence[str]) -> tuple[ComparableRuns, ...]:
    """Return the runs in comparable groups; one group if nothing differs on any task.

    Where something differs on a task, runs of other tasks are parted by the same property.
    """
    differing = list(differences(runs, by))
    groups: list[list[RunRow]] = []
    for run in runs:
        fitting = (group for group in groups if all(_fits(run, other, name) for other in group for name in differing))
        group = next(fitting, None)
        if group is None:
            groups.append([run])
        else:
            group.append(run)
    if len(groups) <= 1:
        return (ComparableRuns("", tuple(runs)),)
    titles = [
        f"protocol version {group[0].protocol_version}"  # of which nearly all else is unknown
        if group[0].is_release
        else ", ".join(_words(name, group, runs) for name in differing)
        for group in groups
    ]
    numbered = [f"{title} ({titles[: at + 1].count(title)})" for at, title in enumerate(titles)]
    shown = [title if titles.count(title) == 1 else numbered[at] for at, title in enumerate(titles)]
    return tuple(ComparableRuns(title, tuple(group)) for title, group in zip(shown, groups, strict=True))


def differences(runs: Sequence[RunRow], by: Collection[str]) -> dict[str, str]:
    """Return in what runs on a task differ: the names of properties, and sentences."""
    reasons: dict[str, str] = {}
    for name, what in COMPARED.items():
        if name in by:
            continue
        pooled = name in WITHIN_ENTRIES or (name == "commitment" and not CASES_BY.isdisjoint(by))
        groups = defaultdict(list)
        for run in runs:
            # another text or world is a difference of its own
            shown = (property_of(run, "text"), property_of(run, "world")) if name == "task_fingerprint" else ""
            groups[run.task, shown, run.agent if pooled else ""].append(run)
        different = {task: values for (task, *_), group in groups.items() if len(values := _distinct(group, name)) > 1}
        if different:
            task, values = next(iter(different.items()))
            shown = "; ".join(f"{_shown(name, value, values)} ({run.agent}, {run.root})" for value, run in values[:3])
            reasons[name] = f"{what}, on {', '.join(different)}. On {task}: {shown}"
    if len({run.protocol_version for run in runs}) > 1:
        reasons.setdefault("protocol_version", "protocol version, between tasks")
    return reasons


def _fits(run: RunRow, other: RunRow, name: str) -> bool:
    """Return whether two runs, perhaps of two tasks, agree in a property."""
    first, another = _value(run, name), _value(other, name)
    if name in UNKNOWN_TO_SOME and None in (first, another):
        return True
    if name in WITHIN_ENTRIES and run.agent != other.agent:
        return True
    if name == "commitment" and _cases(run) != _cases(other):
        return False
    if name in BY_NAME and any(first[key] != another[key] for key in first.keys() & another.keys()):
        return False
    if name in {"commitment", "task_fingerprint", *BY_NAME} and run.task != other.task:
        return True
    return bool(first == another)


def _cases(run: RunRow) -> tuple[str, str]:
    """Return where a run's cases come from; public ones are the same in every experiment."""
    return run.split or "", "" if run.split == "public" else run.experiment_id or ""


def _words(name: str, group: Sequence[RunRow], runs: Sequence[RunRow]) -> str:
    """Return the value of a property in a group, as a part of the group's title."""
    if name == "commitment":
        split, experiment = _cases(group[0])
        several = experiment and len({_cases(run) for run in runs if run.split == split}) > 1
        return f"{split} split" + (f" of experiment {group[0].experiment_name or experiment[:8]}" if several else "")
    if name == "revealed":
        return "cases revealed before" if group[0].revealed else "cases not revealed before"
    values = _distinct(group, name)
    if name in WITHIN_ENTRIES:
        values = [(value, run) for value, run in values if _differs_within(run.agent, name, runs)] or values
    if name in BY_NAME and values:
        value, first = values[0]
        others = [run for run in runs if run.task == first.task]
        others = [run for run in others if run.agent == first.agent] if name in WITHIN_ENTRIES else others
        return _shown(name, value, _distinct(others, name))
    shown = _shown(name, values[0][0], values) if values else ""
    return f"{name.replace('_', ' ')} {shown}" if shown else f"no {name.replace('_', ' ')}"


def _advice(differing: Sequence[str], runs: Sequence[RunRow]) -> str:
    """Return advice that fits what differs."""
    several = "commitment" in differing and len({run.experiment_id for run in runs}) > 1
    which = "the runs of one experiment only" if several else "only the runs to be shown (one directory or several)"
    ways = [f"Name {which}"]
    if set(differing) == {"commitment"}:
        ways.append(f"split entries with --group-by {'experiment' if several else 'split'}")
    if set(differing) <= OF_ENTRIES:
        ways.append(f"split entries with --group-by {','.join(differing)}")
    return f"{', or '.join([*ways, 'mix them anyway with --allow-incomparable'])}."


def _distinct(runs: Sequence[RunRow], name: str) -> list[tuple[Any, RunRow]]:
    """Return each distinct value with a run that has it; open values are left out."""
    values: list[tuple[Any, RunRow]] = []
    for run in runs:
        value = _value(run, name)
        if value is not None and all(value != other for other, _ in values):
            values.append((value, run))
    return values


def _value(run: RunRow, name: str) -> Any:  # noqa: ANN401 - any property's
    value = len(run.held_out_returns) if name == "held_out_cases" else property_of(run, name)
    if name in UNKNOWN_TO_SOME:
        return value or None
    return ({} if name in BY_NAME else "") if value is None else value


def _differs_within(label: str, name: str, runs: Sequence[RunRow]) -> bool:
    """Return whether the runs of an entry differ in a property."""
    return len(_distinct([run for run in runs if run.agent == label], name)) > 1


def _shown(name: str, value: Any, values: Sequence[tuple[Any, RunRow]]) -> str:  # noqa: ANN401 - any property's
    if name not in BY_NAME:
        return str(value)[:12] if name in HASHES else str(value)
    different = sorted({key for other, _ in values for key in value.keys() | other if value.get(key) != other.get(key)})
    return ", ".join(f"{key} {brief(value.get(key, 'absent'))}" for key in different)


@dataclass(frozen=True, slots=True)
class TableFilter:
    """The rows and columns that a table shows."""

    by: Sequence[str] = ()
    """The properties that split entries besides their label, of ``SPLIT_BY``."""
    family: str | None = None
    mix: bool = False
    """Whether a table may have entries that are not comparable."""
    notes: list[str] = field(default_factory=list)


def label_runs(runs: Sequence[RunRow], by: Sequence[str]) -> list[RunRow]:
    """Return runs under all that their entry is called."""
    for name in by:
        if name not in SPLIT_BY:
            raise UnknownName("property of runs to split entries by", name, SPLIT_BY)
    experiment_names = {
        run.experiment_id or "": run.experiment_name for run in sorted(runs, key=lambda run: run.experiment_name)
    }
    experiments = _experiments_shown(experiment_names)

    def describe(run: RunRow, name: str) -> str:
        if name == "experiment":
            return f"{name} {experiments[run.experiment_id or '']}"
        value = property_of(run, name)
        if name in BY_NAME and value:
            value = " ".join(f"{key} {text}" for key, text in value.items())
        return f"{name} {value}"

    return [replace(run, agent=", ".join([run.agent, *(describe(run, name) for name in by)])) for run in runs]


def group_comparable(
    runs: Sequence[RunRow], shipped: Sequence[PublishedTable], choice: TableFilter
) -> tuple[ComparableRuns, ...]:
    """Return the runs of each table; runs on tasks that no table has are in the first, which says so.

    A table labels its runs itself: what an experiment is called depends on which runs are in the table.
    """
    if choice.mix:
        return (ComparableRuns("", tuple(runs)),)
    tasks = {name for table in shipped for name in table.tasks} if shipped else {run.task for run in runs}
    if choice.family in {run.family for run in runs}:
        tasks &= {run.task for run in runs if run.family == choice.family}
    first, *others = comparable([run for run in label_runs(runs, choice.by) if run.task in tasks], choice.by)
    as_recorded = {run.identity: run for run in runs}
    outside = (run for run in runs if run.task not in tasks)
    groups = [ComparableRuns(first.title, (*first.runs, *outside)), *others]
    return tuple(replace(group, runs=tuple(as_recorded[run.identity] for run in group.runs)) for group in groups)


def _experiments_shown(names: Mapping[str, str]) -> dict[str, str]:
    """Return the names of experiments in a table, by identity: the name alone if it is unique."""
    counts = Counter(names.values())
    return {
        identity: name if name and counts[name] == 1 else " ".join(filter(None, (name, _short(identity, names))))
        for identity, name in names.items()
    }


def _short(identity: str, all_of_them: Iterable[str]) -> str:
    alike = [text for text in all_of_them if text.startswith(identity[:SHORT])]
    return identity[:SHORT] if len(alike) == 1 else identity
