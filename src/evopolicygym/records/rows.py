"""What is known of runs, as rows: a class for each kind of row, of which all tables, pages and exports are views.

Each column's name, type, unit and meaning are declared once, in the class of the rows. No exported column contains a
case's seed or a path of the host.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, NewType, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from evopolicygym.core.agent import Allowance, PriceSnapshot, TokenCounts, planned_name
from evopolicygym.core.options import Setting
from evopolicygym.core.score import estimate, normalised
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.submission import EditKind
from evopolicygym.core.task import Anchor, Limits, Success, TaskKind
from evopolicygym.records.checked import RecordState
from evopolicygym.specs.identity import EnvironmentIdentity

Json = NewType("Json", str)
"""A JSON text; NaN and infinities are the strings "NaN", "Inf", "-Inf"."""
Numbers = NDArray[np.float64]
"""A flat list of numbers."""
Picture = NewType("Picture", bytes)
"""A PNG file."""


class ValueKind(StrEnum):
    """The type of a column."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"
    """In UTC, to the millisecond."""
    JSON = "JSON"
    NUMBERS = "numbers"
    PICTURE = "picture"
    """A PNG file."""


_KINDS: Mapping[Any, ValueKind] = {
    str: ValueKind.TEXT,
    RecordState: ValueKind.TEXT,
    TaskKind: ValueKind.TEXT,
    EditKind: ValueKind.TEXT,
    PriceSnapshot: ValueKind.JSON,
    Anchor: ValueKind.JSON,
    Success: ValueKind.JSON,
    Limits: ValueKind.JSON,
    int: ValueKind.INTEGER,
    float: ValueKind.NUMBER,
    bool: ValueKind.BOOLEAN,
    datetime: ValueKind.TIME,
    Json: ValueKind.JSON,
    Numbers: ValueKind.NUMBERS,
    Picture: ValueKind.PICTURE,
}


def json_text(value: Any) -> Json:  # noqa: ANN401 - any JSON value, numpy's included
    """Return a value as JSON that can be encoded as UTF-8: lone surrogates are escaped."""
    return Json(dumps(value).encode("utf-8", "backslashreplace").decode())


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    """One column of a table."""

    name: str
    kind: ValueKind
    optional: bool
    """Whether it may be null."""
    unit: str
    """Empty for a column without a unit."""
    meaning: str

    def cell(self, row: object) -> Any:  # noqa: ANN401 - a cell of any column
        """Return what a file has of a row in this column."""
        value = getattr(row, self.name)
        is_text = value is None or isinstance(value, str)
        if is_text or self.kind is not ValueKind.JSON:
            return value
        return json_text(asdict(value) if is_dataclass(value) and not isinstance(value, type) else value)


def column(meaning: str, unit: str = "", *, init: bool = True) -> Any:  # noqa: ANN401 - a field of any type
    """Return a field of a row's class that is exported; its annotation is the column's type.

    One without ``init`` is computed from other fields.
    """
    return field(init=init, metadata={"meaning": meaning, "unit": unit})


def columns(row: type) -> tuple[ColumnSchema, ...]:
    """Return the columns of a table, given the class of its rows."""
    return _columns(row)


@cache
def _columns(row: Any) -> tuple[ColumnSchema, ...]:  # noqa: ANN401 - mypy takes classes for unhashable
    hints = get_type_hints(row)
    return tuple(_column(item.name, hints[item.name], item.metadata) for item in fields(row) if item.metadata)


def _column(name: str, hint: Any, metadata: Mapping[str, str]) -> ColumnSchema:  # noqa: ANN401 - an annotation
    members = (hint,) if hint in _KINDS or get_origin(hint) in {Mapping, tuple} else get_args(hint)
    (kind,) = (_kind(member) for member in members if member is not NoneType)
    return ColumnSchema(name, kind, NoneType in members, metadata["unit"], metadata["meaning"])


def _kind(member: Any) -> ValueKind:  # noqa: ANN401 - an annotation
    return ValueKind.JSON if get_origin(member) in {Mapping, tuple} else _KINDS[member]


def markdown(row: type) -> str:
    """Return a table's columns as a Markdown table, for the docs."""
    lines = ["| column | type | unit | meaning |", "|---|---|---|---|"]
    for item in columns(row):
        kind = f"{item.kind}{', or null' if item.optional else ''}"
        lines.append(f"| `{item.name}` | {kind} | {item.unit} | {item.meaning} |")
    return "\n".join(lines) + "\n"


class Record:
    """A row whose columns are attributes and items: ``row.task``, ``row["task"]``, ``dict(row)``."""

    __slots__ = ()

    def keys(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(column.name for column in columns(type(self)))

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a value of any column
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A run after one of its submissions."""

    spent: int
    """Episodes charged up to and with it."""
    validation_mean: float | None
    """Its checkpoint's mean over the validation cases; None if it is not a candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow(Record):
    """One run: what tables, pages, figures and exports know of it.

    Fields with a docstring are not exported. No text has a character that can't be printed.
    """

    run_id: str = column("the run's id")
    record: RecordState = column(
        "how far it is to be believed: `played here`, `replayed`, `verified`, `shipped` or `unverified`"
    )
    unchecked: str | None = column("what could not be checked of an unverified record")
    task: str = column("the environment's name")
    environment_id: str | None = column("what gymnasium knows it by")
    family: str = column("the environment's family")
    kind: TaskKind | None = column("`tuning` or `synthesis`")
    agent: str = column("the agent as tables name it: its label or its kind, with model and effort")
    agent_kind: str = column("the built-in agent, `command`, `function`, `outside` or the like, whatever its label")
    label: str | None = column("what its user called the agent (`--label`); null without")
    program_sha256: str | None = column("SHA-256 of the agent's program when the run began; null where it has none")
    agent_version: str | None = column("the version that the agent's tool or library tells; null where it is unknown")
    model: str | None = column("the model that the agent uses; null where it was given none")
    model_server: str | None = column("host and port of the model's server; null where the run names none")
    model_details: Mapping[str, str] | None = column(
        "what the model's server told of it when the run began (`server`, `name`, `file`, `digest`, `quantization`, "
        "`context`, `slots`, `parameters`, `build`), whether it is `replayable`, and the sampling and the `cache` that "
        "were asked for; null where neither is known"
    )
    effort: str | None = column("the reasoning effort of the model; null where the run doesn't say")
    max_cost_usd: float | None = column(
        "limit of the agent's cost; null in this and the next three without", "US dollars"
    )
    max_tokens: int | None = column("limit of its model's tokens", "tokens")
    max_time_s: float | None = column("limit of its turns' wall time", "s")
    max_turns: int | None = column("limit of its turns")
    seed: int | None = column(
        "of the agent and of the policies' random numbers; cases have other seeds, which no table has"
    )
    split: str | None = column("where the cases come from: `private`, `public` or `directory`")
    experiment: str | None = column(
        "its name, as `--experiment` has it; its identity where the run lies apart from its others"
    )
    experiment_id: str | None = column("its identity; runs of one experiment and task play the same cases")
    nonce: str | None = column("the nonce of a board, from which the cases are derived too; null without one")
    revealed: bool = column("whether its cases were revealed before it began")
    commitment: str | None = column("salted SHA-256 of the cases")
    protocol_version: str = column("the protocol that the run was played by")
    evopolicygym_version: str | None = column(
        "the version of evopolicygym that opened the run, with its commit in a checkout; null in older records"
    )
    versions: Mapping[str, str] | None = column(
        "versions of Python, numpy, gymnasium and the simulator's packages, by name"
    )
    simulator_code: Mapping[str, str] | None = column(
        "hashes of the modules that make the environment; null where gymnasium alone does, and in older records"
    )
    task_fingerprint: str | None = column("SHA-256 of the environment's spec")
    repeats: bool | None = column(
        "whether two processes played short episodes alike before the run was opened; null in this and the next for an "
        "environment that ships, and in older records"
    )
    cases_differ: bool | None = column("whether the same actions gave other short episodes for other seeds")
    isolation: str | None = column("the level at which policies played")
    stage: str = column("`open`, `closed`, `selected` or `finished`")
    status: str | None = column("how it ended: `scored` or `no_ok_submit`; null where it is not finished")
    ended_by: str | None = column(
        "what ended its submissions: `budget`, `submissions`, `finish`, a limit's option such as `max_cost`, `crash`, "
        "`hang`, `context` (full), or `agent`; null while they are taken"
    )
    is_early: bool = column("whether they ended with episodes unspent")
    score: float | None = column(
        "mean held-out return of the selected checkpoint; null until it is known", "return", init=False
    )
    score_standard_error: float | None = column("of the score; null for one case", "return", init=False)
    normalised: float | None = column(
        "the score between random play, 0, and the reference policy, 1, by the record's anchors, clipped; null without "
        "both, or where the reference is no better",
        init=False,
    )
    success_rate: float | None = column("share of held-out episodes that succeeded; null where none can")
    validation_mean: float | None = column("mean validation return of the selected checkpoint", "return")
    selected_submission: int | None = column("the submission whose checkpoint was selected, the latest of equals")
    first_reached_submission: int | None = column("the earliest submission with the selected checkpoint")
    budget: int = column("train episodes that the agent may spend", "episodes")
    spent: int = column("train episodes charged so far", "episodes")
    submissions: int = column("submissions charged so far")
    distinct_checkpoints: int = column("different checkpoints among the submissions that may be selected")
    validation_cases: int | None = column("hidden cases that pick the checkpoint")
    held_out_cases: int | None = column("hidden cases that score it")
    train_cases: int | None = column("train cases that the agent may name")
    text: str | None = column("how much the task's text said of the environment: `full` or `terse`")
    interface: str | None = column("how its spaces were shown: `standard`, `permuted` or `anonymous`")
    world: str | None = column("the world that it was played in, by name; `standard` for the task as it is")
    feedback: str | None = column("what a submission leaves to read: `full`, `traces` or `returns`")
    memory: str | None = column("what a conversation of the agent had of those before it: `full` or `none`")
    skill: str | None = column(
        "the skill that the agent was handed, by name and start of its SHA-256; null without one"
    )
    finish_allowed: bool | None = column("whether the agent may end the run with episodes unspent")
    min_episodes: int | None = column("the fewest of one submission", "episodes")
    max_episodes: int | None = column("the most of one submission; null where only the budget limits them", "episodes")
    max_submissions: int | None = column("the most that the run takes; null where only the budget limits them")
    films: int = column("films of its train episodes that the agent may ask for")
    policy_packages: str | None = column("distributions that policies may import besides those that all may")
    policy_limits: Mapping[str, Any] | None = column(
        "limits of a policy that aren't at their default, by name; null where all are"
    )
    tokens: float | None = column(
        "input and output, counted by the model proxy, else told by the agent's tool", "tokens"
    )
    cost_usd: float | None = column(
        "what the model cost, from the same source; null where no price is known", "US dollars"
    )
    cost_is_lower_bound: bool = column("whether tokens and cost miss generations whose usage was not reported")
    model_requests: int | None = column("requests through the model proxy; null in this and the next six without one")
    unknown_generations: int | None = column("generations whose usage was not reported: it is missing in the sums")
    input_tokens: int | None = column("all that went into the model, cached or not", "tokens")
    cached_input_tokens: int | None = column("the part of it that was read from a cache", "tokens")
    output_tokens: int | None = column("all that came out, reasoning included", "tokens")
    reasoning_tokens: int | None = column("the part of it that was reasoning", "tokens")
    model_seconds: float | None = column("spent waiting for the model, summed over requests", "s")
    price: PriceSnapshot | None = column(
        "the price behind the cost: US dollars for a million tokens by kind, and its source; null where the agent's "
        "tool told the cost"
    )
    tool_usage: Mapping[str, float | None] | None = column("what the agent's own tool says that it used, by name")
    opened_at: datetime = column("when the run was opened")
    finished_at: datetime | None = column("when it was finished")
    turns: int | None = column("turns of the agent that have ended")
    resumes: int | None = column("how often the run was resumed")
    train_seconds: float = column("wall time of all published submissions", "s")
    turn_seconds: float = column("wall time of the agent's turns", "s")
    wall_seconds: float = column("wall time from opening to end, less what it was stopped in good order", "s")
    name: str | None = column("what `evopolicygym label` calls it, which is no part of the record; null without")
    tags: tuple[str, ...] | None = column("its tags, in a list; null without")
    note: str | None = column("a reader's note; null without")

    root: Path
    """The run directory."""
    environment: EnvironmentIdentity
    """The environment that the task's name stood for in this run."""
    command: tuple[str, ...]
    """The program of a ``command`` agent, with its arguments."""
    options: Mapping[str, Any]
    """The agent's extra options."""
    allowance: Allowance
    """The agent's limits."""
    program_changes: tuple[str, ...]
    """The hash of each program that replaced the agent's when the run was resumed."""
    checkpoints: tuple[str, ...]
    """The checkpoints of its submissions, in order; empty if the record lacks them."""
    held_out_returns: tuple[float, ...]
    """The returns in the split's order; empty without a score."""
    curve: tuple[CurvePoint, ...]
    """The state of the run after each of its submissions."""
    finish: str | None
    """``allowed`` or ``refused``: whether the agent could end the run early; None if it always can, as outside."""
    token_counts: TokenCounts | None
    """``tokens`` by kind; None if unknown."""
    requests: float | None
    """The model's requests behind ``tokens``; None if unknown."""
    choices: Mapping[str, Setting]
    """The values of further options that runs must agree in, by name, unless they are the default."""
    random_anchor: Anchor | None
    idle_anchor: Anchor | None
    reference_anchor: Anchor | None
    """The score of the reference policy; None if the record has none."""

    def __post_init__(self) -> None:
        """Compute the score, and its place between the anchors, from the held-out returns."""
        estimated = estimate(self.held_out_returns) if self.held_out_returns else None
        object.__setattr__(self, "score", estimated.mean if estimated else None)
        object.__setattr__(self, "score_standard_error", estimated.standard_error if estimated else None)
        random, reference = self.random_anchor, self.reference_anchor
        normalised_score = None
        if estimated and random and reference and reference.mean > random.mean:
            normalised_score = normalised(estimated.mean, random.mean, reference.mean)
        object.__setattr__(self, "normalised", normalised_score)

    @property
    def is_release(self) -> bool:
        """Whether it was played by the paper's release: of its task, only the name is known."""
        return not self.environment.id

    @property
    def experiment_name(self) -> str:
        """The name of its experiment; empty if it is unknown."""
        return self.experiment or "" if self.experiment != self.experiment_id else ""

    @property
    def planned_name(self) -> str:
        """What a suite calls the agent."""
        return planned_name(self.agent_kind, self.model or "", self.effort or "", self.label or "")

    @property
    def limits(self) -> str:
        """The limits of its agent, by their options; ``none`` without any."""
        return str(self.allowance)

    @property
    def programs(self) -> tuple[str, ...]:
        """The hashes of all programs that the agent was during the run, in their order."""
        return tuple(filter(None, (self.program_sha256, *self.program_changes)))

    @property
    def identity(self) -> tuple[object, ...]:
        """The properties that only copies of a run share; ids are drawn independently, so an id is not enough."""
        agent = self.agent_kind, self.model, self.effort, *self.command, self.seed
        return (self.run_id, self.experiment_id, self.task, *agent)

    @property
    def options_text(self) -> str:
        """The agent's extra options in a word."""
        return json.dumps(dict(self.options), sort_keys=True, default=str) if self.options else ""

    @property
    def fingerprint(self) -> str:
        """A short hash of the versions of packages that the numbers depend on, without the tasks' specs."""
        text = json.dumps([self.protocol_version, sorted((self.versions or {}).items())])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def selection_optimism(self) -> float | None:
        """The selected checkpoint's validation mean less its held-out mean; None if either is unknown.

        The best of several noisy validation means is above its true mean on average, so this is above 0 on average.
        Where no candidate was better than another nothing was selected: None.
        """
        candidates = {point.validation_mean for point in self.curve if point.validation_mean is not None}
        if self.score is None or self.validation_mean is None or len(candidates) < 2:  # noqa: PLR2004 - a choice
            return None
        return self.validation_mean - self.score


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow(Record):
    """The task of one run, as its agent was shown it, and the anchors, which it was not shown."""

    run_id: str = column("the run's id")
    task: str = column("the environment's name; the text may have another, where the interface is `anonymous`")
    task_fingerprint: str | None = column("SHA-256 of the environment's spec")
    task_text: str | None = column("what the agent is told, as Markdown; null in records of the paper's release")
    observation_space: Mapping[str, Any] | None = column("schema of what a policy is given; null as above")
    action_space: Mapping[str, Any] | None = column("schema of what a policy answers; null as above")
    max_steps: int | None = column("an episode is cut after so many", "steps")
    reward_components: tuple[str, ...] = column("names of the parts of the reward, as the environment declares them")
    success: Success | None = column("the rule by which an episode succeeds, and its meaning; null where none can")
    policy_limits: Limits | None = column("limits of a policy: seconds, MiB, KiB, files; null as above")
    random_anchor: Anchor | None = column("uniform random actions: mean return, its standard error, episodes")
    idle_anchor: Anchor | None = column("the same of the idle action at every step")
    degenerate_anchor: Anchor | None = column("the same of ending episodes early; null where that gains nothing")
    reference_anchor: Anchor | None = column("the same of the reference policy; null where the record has none")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionRow(Record):
    """One submission."""

    run_id: str = column("the run's id")
    submission: int = column("its number in the run, from 0")
    status: str = column("`ok`, `interrupted` until its feedback is published, or why the policy could not be loaded")
    checkpoint: str = column("SHA-256 that names the checkpoint")
    is_selected: bool = column("whether it is the one that was selected")
    episodes: int = column("episodes charged", "episodes")
    played: int = column("episodes played so far", "episodes")
    failed_episodes: int = column("episodes in which the policy failed", "episodes")
    remaining_budget: int = column("after its charge", "episodes")
    train_mean: float | None = column("mean return of the episodes played; null where none was", "return")
    train_standard_error: float | None = column("of that mean; null for one episode", "return")
    validation_mean: float | None = column(
        "mean validation return of its checkpoint; null until all are played", "return"
    )
    validation_standard_error: float | None = column("of that mean", "return")
    error: str | None = column("why the policy could not be loaded, in a line")
    charged_at: datetime = column("when it was charged")
    published_at: datetime | None = column("when its feedback was in place")
    seconds: float | None = column("wall time of its last stretch of playing, loading included", "s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit(Record):
    """One submission as an edit of its parent, and what came of it (``analysis/lineage/lineage.py`` has the rules)."""

    run_id: str = column("the run's id")
    submission: int = column("its number in the run, from 0")
    checkpoint: str = column("SHA-256 that names the checkpoint")
    parent: int | None = column(
        "the submission that it was made of, else the nearest in code; -1 for the starter policy, null where files are "
        "missing"
    )
    is_declared: bool = column("whether the agent named the parent")
    edit_kind: EditKind | None = column(
        "`structural`, `parametric`, `cosmetic`, `revert`, `repair` or `none`; null where files are missing"
    )
    hypothesis: str | None = column("what the agent expected of it, in its words; null where it said nothing")
    settings: Mapping[str, Setting] = column("parameters of the policy that the submission itself set, by name")
    changed_lines: int | None = column("lines of code that it or its parent has and the other lacks", "lines")
    preserved: float | None = column("share of the parent's functions that it has too; null where that has none")
    topology: int | None = column(
        "number of its program without literals, in the order of first appearance; null where it can't be parsed"
    )
    acts_by_episode: bool = column("whether the policy may act by the number of the episode, and was given several")
    is_broken: bool = column("whether it could not be loaded, or failed in all its episodes by an exception")
    mended_by: int | None = column("the submission that repaired it; null where none did")
    episodes: int = column("episodes charged", "episodes")
    spent: int = column("episodes charged up to and with it", "episodes")
    train_mean: float | None = column("mean return of its train episodes; null where none was played", "return")
    validation_mean: float | None = column("mean validation return; null where it can't be selected", "return")
    paired_gain: float | None = column(
        "mean difference to its parent (of its repair, where it was broken) over the same validation cases; null where "
        "either was not played",
        "return",
    )
    paired_gain_low: float | None = column("lower end of its 90 % interval; null for one case", "return")
    paired_gain_high: float | None = column("upper end of its 90 % interval", "return")
    paired_cases: int | None = column("validation cases that both played")
    is_hit: bool | None = column(
        "whether it is a real gain over the parent and over the best so far; null where that is unknown, or for kinds "
        "that can't be hits"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRow(Edit):
    """An edit with what was there to read before it, and its files, from which the checkpoint can be rebuilt.

    Files are a mapping of paths to texts; a file that is not UTF-8 is ``{"base64": …}``.
    """

    cost_usd: float | None = column(
        "what the model cost since the submission before, as the model proxy counted; null without it", "US dollars"
    )
    tokens: float | None = column("its input and output since the submission before; null as above", "tokens")
    first_message: int | None = column(
        "the first step of the conversation since the submission before, from 1, as `export atif` numbers them; null "
        "where the transcript doesn't tell"
    )
    last_message: int | None = column("the step in which it was submitted")
    feedback_before: Mapping[str, Any] | None = column(
        "`summary.json` of the submissions whose feedback came since the submission before, by their numbers; null "
        "without"
    )
    files_before: Mapping[str, Any] | None = column(
        'the parent\'s files, by path: their texts, `{"base64": ...}` of one that is not UTF-8; null where they are '
        "missing"
    )
    files: Mapping[str, Any] | None = column("its own files, in the same way: with the same bytes as the checkpoint")
    diff: str | None = column(
        "what changed in the texts, as a unified diff; null where nothing did, or files are missing"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRow(Record):
    """One case, played by one checkpoint."""

    run_id: str = column("the run's id")
    episode: str = column("the episode's id in its run, such as `train/3/0`: the key that joins steps and episodes")
    split: str = column("`train`, `validation` or `held_out`")
    submission: int | None = column("the submission that it belongs to; null in hidden splits")
    checkpoint: str = column("SHA-256 that names the checkpoint that played")
    position: int = column("its place in the submission, from 0; in hidden splits the same as `case`")
    case: int = column("the case's index in its split")
    episode_return: float = column("undiscounted sum of its rewards", "return")
    length: int | None = column("steps played", "steps")
    terminated: bool | None = column("whether the environment ended it")
    truncated: bool | None = column("whether it was cut off, such as at the limit of steps")
    success: bool | None = column("null where the environment knows no success")
    failure: str | None = column("why the policy failed; from then on random actions played. Null where it didn't")
    failure_step: int | None = column("the step at which it failed; 0 before the first")
    failure_message: str | None = column("in a line; the policy's own words, where it raised")
    actions_clipped: int | None = column("steps whose action was clipped into its bounds", "steps")
    reward_components: Json = column("sums over the episode of the parts of the reward that the environment declares")
    seconds: float | None = column("wall time, the environment's reset included", "s")
    trajectory_sha256: str | None = column("equal for equal trajectories, bit for bit")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepRow(Record):
    """One step of an episode."""

    run_id: str = column("the run's id")
    episode: str = column("the episode's id in its run, such as `train/3/0`: the key that joins steps and episodes")
    split: str = column("`train`, `validation` or `held_out`")
    submission: int | None = column("the submission that it belongs to; null in hidden splits")
    checkpoint: str = column("SHA-256 that names the checkpoint that played")
    position: int = column("the episode's place in the submission, from 0; in hidden splits the same as `case`")
    case: int = column("the case's index in its split")
    step: int = column("from 0")
    observation: Numbers | None = column(
        "what the action answered, row-major, where the space is one array or integer; null in hidden splits"
    )
    observation_shape: tuple[int, ...] | None = column(
        "its shape: of a picture rows, columns and channels; null with it"
    )
    observation_picture: Picture | None = column("the same as a PNG, where it is bytes of a picture")
    observation_json: Json | None = column("the same where the space is a Dict, a Tuple or a Text")
    action: Numbers | None = column("as the environment was given it, where the space is one array or integer")
    action_json: Json | None = column("the same where the space is a Dict, a Tuple or a Text")
    reward: float = column("what the step gave", "return")
    terminated: bool = column("whether the environment ended the episode at this step")
    truncated: bool = column("whether the episode was cut off at this step")
    action_clipped: bool | None = column("whether the action was clipped into its bounds; null in hidden splits")
    info: Json | None = column("what the environment reported besides; null in hidden splits")
    final_observation: Numbers | None = column("what the last step led to; null at all others and in hidden splits")
    final_observation_json: Json | None = column("the same where the space is a Dict, a Tuple or a Text")


Row = RunRow | TaskRow | SubmissionRow | EditRow | EpisodeRow | StepRow
STEPS = "steps"
TABLES: Mapping[str, type[Row]] = {
    "runs": RunRow,
    "tasks": TaskRow,
    "submissions": SubmissionRow,
    "edits": EditRow,
    "episodes": EpisodeRow,
    STEPS: StepRow,
}
"""Classes of rows by table."""
