"""The options of a run, each declared once, in a group.

The declaration yields the command-line flag, the key in TOML files (of a run and of a suite), the argument of
``evopolicygym.run``, the row of the docs' table, the field of the run directory, and whether runs must agree in the
option before they are pooled. The groups are ``TypedDict``s, so that type checkers know the arguments.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from functools import reduce
from typing import Annotated, Any, Literal, TypedDict, get_args, get_type_hints

from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.task import TRAIN_CASES, Limits, Task
from evopolicygym.core.world import STANDARD

Setting = bool | int | float | str
"""An option's value in tables."""
NO_LIMIT, DEFAULT = "no limit", "default"
DEFAULT_AGENT, COMMAND = "tuner", "command"
DEFAULT_EXPERIMENT = "default"
AUTO, LOCAL = "auto", "local"


class Spelling(StrEnum):
    """How the command line spells a value."""

    VALUE = "value"
    """``--name VALUE``."""
    SEVERAL = "several"
    """``--name VALUE``, which may be given several times."""
    COMMAS = "commas"
    """``--name VALUE,VALUE``."""
    PAIRS = "pairs"
    """``--name NAME=VALUE``, which may be given several times."""
    JSON_PAIRS = "pairs of JSON"
    """``--name NAME=VALUE``, whose values may be any of JSON."""
    PAIRS_WITH_COMMAS = "pairs with commas"
    """``--name NAME=VALUE,NAME=VALUE``."""
    ARGUMENT = "argument"
    """No flag: the words stand by themselves."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a run. ``declared_options`` fills in its name, type, group and tables."""

    default: Any
    """The default value; None also if it is determined later."""
    help: str
    """One line."""
    details: str = ""
    """Markdown that replaces ``help`` in the docs' table."""
    default_text: str | None = None
    """The default in words, if the value is not self-explanatory."""
    metavar: str | None = None
    """The placeholder for the value in ``--help``."""
    minimum: int | None = None
    spelling: Spelling = Spelling.VALUE
    flag_name: str = ""
    """The flag's name, if it differs from the option's."""
    key_name: str = ""
    """The key in a TOML file, if it differs from the option's name."""
    in_suites: bool = True
    """Whether ``evopolicygym suite`` accepts the flag too."""
    suite_help: str = ""
    """The help of the suite's flag, if it differs."""
    comparability_label: str = ""
    """The option's name in messages about pooling; empty if pooled runs may differ in it."""
    task_field: str = ""
    """The task's attribute, such as ``budget.episodes``; empty if it is stored in the task's ``choices``."""
    record_field: str = ""
    """The property of a run's result; empty if it is stored in the result's ``choices``."""
    affects_cases: bool = False
    """Whether it changes the cases that score a run, so that entries can't be split by it."""
    crossable: bool = False
    """Whether a suite may cross it although pooled runs may differ in it."""
    name: str = ""
    type: Any = None
    """The type of its value."""
    group: str = "Other options"
    """The heading in ``--help``."""
    tables: tuple[str, ...] = ()
    """The tables of a TOML file that contain it, outermost first; none for the top level."""

    @property
    def flag(self) -> str:
        """The command-line flag; empty if there is none."""
        if self.spelling is Spelling.ARGUMENT:
            return ""
        return "--" + (self.flag_name or self.name).replace("_", "-")

    @property
    def key(self) -> str:
        """Its key in its table of a TOML file."""
        return self.key_name or self.name

    @property
    def path(self) -> tuple[str, ...]:
        """Its dotted path in a TOML file."""
        return (*self.tables, self.key)

    @property
    def in_table(self) -> "Option":
        """The option relative to the outermost of its tables."""
        return replace(self, tables=self.tables[1:])

    @property
    def is_knob(self) -> bool:
        """Whether a suite may cross it: runs that differ in it alone share an experiment and its cases."""
        return self.crossable or bool(self.comparability_label and not self.affects_cases)

    @property
    def default_shown(self) -> str:
        """The default in words; empty if there is none."""
        if self.default_text is not None:
            return self.default_text
        return "" if self.default in (None, "", [], {}) else str(self.default)


# Declarations are wrapped like prose; the formatter would give each argument a line.
# fmt: off
class NamedAgent(TypedDict, total=False):
    """Which agent plays."""

    agent: Annotated[str, Option("",
        "The agent: a built-in agent's name, or package.module:make. With a COMMAND it is 'command'.",
        details="a built-in agent's name, or `package.module:make`", default_text=DEFAULT_AGENT, key_name="name",
        in_suites=False)]


class ProgramOptions(TypedDict, total=False):
    """The agent's program, its label and its own options."""

    command: Annotated[Sequence[str], Option([], "A program that is the agent, started once in the workspace.",
        metavar="[-- COMMAND …]", spelling=Spelling.ARGUMENT, in_suites=False)]
    interactive: Annotated[bool, Option(default=False,
        help="Run COMMAND in this terminal: you see its output and can type.",
        details="runs the COMMAND in this terminal, so that you see its output and can type", in_suites=False)]
    label: Annotated[str, Option("", "The agent's name in tables and exports, such as mine-v2.",
        details="the agent's name in tables and exports, in place of its own name and command; up to 80 "
        "characters. The record also keeps a SHA-256 of the files that a COMMAND names (column `program`), "
        "so that two versions of a program are distinguished",
        in_suites=False)]
    options: Annotated[Mapping[str, Any], Option({},
        "An extra option of this agent, such as quiet_s=900; may be given several times.",
        details="`NAME=VALUE`, an extra option of this agent, such as `program=/opt/codex`, `max_turns=3`, "
        "`quiet_s=900` or `memory_mb=4096`; may be given several times",
        suite_help="An extra option of every agent; may be given several times.", metavar="NAME=VALUE",
        spelling=Spelling.PAIRS, flag_name="option")]


class ModelOptions(TypedDict, total=False):
    """The model that the agent asks."""

    model: Annotated[str, Option("", "The model that the agent asks, if it asks a model.",
        suite_help="The model of every agent that names none.", crossable=True)]
    effort: Annotated[str, Option("", "The model's reasoning effort, such as low or high.",
        details="the model's reasoning effort, see [agents](../use/agents.md#how-much-the-model-thinks)",
        metavar="LEVEL", crossable=True)]
    model_url: Annotated[str, Option("",
        "The only model server that the agent can reach, through a proxy that counts tokens.",
        details="the only model server that the agent can reach, through [a proxy](../use/model_proxy.md) that "
        "counts tokens; [`neutral`](neutral.md) asks it from outside the sandbox")]
    model_key: Annotated[str, Option("", "The environment variable that holds the model server's key.",
        details="the environment variable that holds the model server's key; no program of the agent ever sees it",
        metavar="VARIABLE")]
    model_wire: Annotated[str, Option("", "The API of the server: auto, responses, chat, messages or gemini.",
        details="the API of the server: `auto`, `responses`, `chat`, `messages` or `gemini`", default_text="auto")]
    price: Annotated[Mapping[str, float] | None, Option(None,
        "The price of a million tokens in USD: input=1.25,cached_input=0.125,output=10.",
        details="the price of a million tokens in USD: `input=1.25,cached_input=0.125,output=10`",
        default_text="looked up", metavar="NAME=USD,…", spelling=Spelling.PAIRS_WITH_COMMAS, in_suites=False)]


class LimitOptions(TypedDict, total=False):
    """How much the agent may use."""

    max_cost: Annotated[float | None, Option(None, "Limit on the model's cost.",
        details="limit on the model's cost in USD ([limits](../use/agents.md#what-a-run-may-use))",
        suite_help="Limit on the model's cost in a run.", metavar="USD", crossable=True)]
    max_tokens: Annotated[int | None, Option(None,
        "Limit on the model's tokens, input and output together.",
        suite_help="Limit on the model's tokens in a run.", crossable=True)]
    max_time: Annotated[float | str | None, Option(None,
        "Limit on the wall time of all turns: seconds, or 45m, 2h30m, 1d; none for no limit.",
        default_text="1d for a COMMAND", metavar="DURATION", crossable=True)]
    max_turns: Annotated[int | None, Option(None, "Limit on the agent's turns.", crossable=True)]


class TaskOptions(TypedDict, total=False):
    """What is played, how many episodes, on which cases."""

    budget: Annotated[int, Option(128, "Train episodes that the agent can spend.",
        comparability_label="episode budget", task_field="budget.episodes", record_field="budget")]
    validation: Annotated[int, Option(16, "Hidden cases that select the checkpoint, 1 to 64.",
        comparability_label="number of validation cases", task_field="validation_cases",
        record_field="validation_cases", affects_cases=True)]
    held_out: Annotated[int, Option(32, "Hidden cases that score the selected checkpoint, 1 to 256.",
        comparability_label="number of held-out cases", task_field="held_out_cases", record_field="held_out_cases",
        affects_cases=True)]
    films: Annotated[int, Option(0, "Films of its train episodes that the agent can request.",
        details="[films](../use/films.md#films-for-an-agent) of its train episodes that the agent can request",
        comparability_label="films that an agent can request", task_field="films", record_field="films")]
    imports: Annotated[Sequence[str], Option([],
        "A module whose import registers the environment's id; may be given several times.",
        details="a module whose import registers the environment's [id](../use/packs.md#any-registered-id); may "
        "be given several times",
        metavar="MODULE", spelling=Spelling.SEVERAL, flag_name="import", in_suites=False)]
    make: Annotated[Mapping[str, Any], Option({},
        "An argument of gymnasium.make, for an environment named by its id, as JSON or text; may be given several "
        "times.",
        details="`NAME=VALUE`, an argument of `gymnasium.make`, for an environment named by [its "
        "id](../use/packs.md#any-registered-id), as JSON (`true`, `0.5`, `[1, 2]`) or text; may be given several times",
        metavar="NAME=VALUE", spelling=Spelling.JSON_PAIRS, in_suites=False)]
    policy_packages: Annotated[Sequence[str], Option([],
        "Installed packages that policies can import in addition to numpy and scipy.",
        details="`NAME[,NAME]`, installed packages that [policies can "
        "import](../use/agents.md#what-policies-can-import) in addition to numpy and scipy",
        metavar="NAME[,NAME]", spelling=Spelling.COMMAS, comparability_label="packages that policies can import",
        task_field="policy_packages", record_field="policy_packages")]
    split: Annotated[str, Option("private",
        "Where cases come from: private, public, or a directory with train.json, valid.json, heldout.json.",
        details="where cases come from: `private`, `public`, or a directory with `train.json`, `valid.json` and "
        "`heldout.json`")]
    experiment: Annotated[str, Option(DEFAULT_EXPERIMENT, "Runs of one experiment play the same cases.",
        suite_help="The experiment that the suite's runs belong to. Default: the suite's name.")]
    nonce: Annotated[str, Option("",
        "The nonce of a board, from which the private split's cases are derived too.",
        details="the nonce of [a board](../use/boards.md#a-board-of-hidden-cases), from which the cases of the private "
        "split are derived too; all runs of an experiment have the same")]
    seed: Annotated[int, Option(0,
        "Seed for agent and policy RNGs; does not affect cases; 0 to 4294967295.",
        suite_help="Seed of the first repeat; each further repeat uses the next.")]


class Knobs(TypedDict, total=False):
    """What the agent sees and may do, which experiments vary."""

    text: Annotated[Literal["full", "terse"], Option("full",
        "The task's text: full, or terse without equations and constants.",
        details="[the task's text](../use/knobs.md#text): `full`, or `terse`, which has no equations, constants or "
        "advice",
        comparability_label="text of the task")]
    interface: Annotated[Literal["standard", "permuted", "anonymous"], Option("standard",
        "The task's interface: standard, permuted (order, signs, codes) or anonymous (without names too).",
        details="[the task's interface](../use/knobs.md#interface): `standard`; `permuted`, with order, signs, scales "
        "and codes that the experiment's secret draws, as the text says; or `anonymous`, the same without names",
        comparability_label="interface of the task")]
    world: Annotated[str | dict[str, Any], Option(STANDARD,
        "The world of the task: standard, a name that ships with the task, or a TOML file.",
        details="[the world](../use/worlds.md) of the task: `standard`, a name that ships with the task, or a TOML "
        "file; in TOML files and Python also a table",
        metavar="NAME|FILE", comparability_label="world", affects_cases=True, crossable=True)]
    feedback: Annotated[Literal["full", "traces", "returns"], Option("full",
        "The feedback on a submission: full, traces (no films) or returns (the summary alone).",
        details="the [feedback](../use/knobs.md#feedback) on a submission: `full`, `traces` (no films) or "
        "`returns` (the summary alone)",
        comparability_label="feedback", task_field="feedback", record_field="feedback")]
    memory: Annotated[Literal["full", "none"], Option("full",
        "Whether the agent remembers: full, or none (each submission is by a new conversation in a new workspace).",
        details="whether the agent [remembers](../use/knobs.md#memory): `full`, or `none` (each submission is by a new "
        "conversation in a new workspace)",
        comparability_label="memory of the agent")]
    skill: Annotated[str, Option("",
        "A directory with SKILL.md that the agent can read, as skill/ in its workspace.",
        details="a directory with `SKILL.md` that the agent can read, as `skill/` in its workspace "
        "([skills](../use/knobs.md#skill))",
        metavar="DIR", comparability_label="skill")]
    finish: Annotated[bool, Option(default=False, help="Let the agent end the run with episodes unspent.",
        details="lets the agent end the run with episodes unspent; an agent outside, and a person, always can",
        comparability_label="whether the agent may finish early", task_field="finish_allowed", record_field="finish")]
    min_episodes: Annotated[int, Option(1, "The fewest episodes of a submission.",
        minimum=1, comparability_label="fewest episodes of a submission", task_field="budget.min_per_submission")]
    max_episodes: Annotated[int | None, Option(None, "The most episodes of a submission.",
        default_text="all that are left", minimum=1, comparability_label="most episodes of a submission",
        task_field="budget.max_per_submission")]
    max_submissions: Annotated[int | None, Option(None,
        "The most submissions; the run closes with the last of them.",
        details="the most submissions; the run closes with the last of them, whatever is left of the budget",
        default_text="no limit", minimum=1, comparability_label="most submissions",
        task_field="budget.max_submissions")]
    train_cases: Annotated[int, Option(TRAIN_CASES, "Train cases that the agent can name, 1 to 1024.",
        comparability_label="number of train cases", task_field="train_cases")]
    policy_limits: Annotated[Mapping[str, float], Option({},
        "A limit of the policy, such as act_s=2 or memory_mb=512; may be given several times.",
        details="`NAME=VALUE`, a [limit of the policy](../use/knobs.md#policy-limits): `load_s`, `reset_s`, "
        "`act_s`, `episode_s`, `memory_mb`, `output_kb`, `checkpoint_mb` or `checkpoint_files`; may be given "
        "several times",
        metavar="NAME=VALUE", spelling=Spelling.PAIRS, flag_name="policy_limit",
        comparability_label="limits of a policy", task_field="limits")]


class LocationOptions(TypedDict, total=False):
    """Where a run plays and where its run directory is created."""

    workers: Annotated[int | None, Option(None, "Episodes that play in parallel.",
        details="episodes that play in parallel, at most one per core; results don't depend on it",
        suite_help="Episodes of a run that play in parallel. Default: one for each of its cores.",
        default_text="one for each core", minimum=1)]
    runs: Annotated[str, Option(str(DEFAULT_RUNS), "The directory in which run directories are created.")]
    readable: Annotated[Literal["owner", "group"], Option("owner",
        "Who can read a run directory that nobody plays: owner, or group.",
        details="who can read a run directory that nobody plays: `owner`, or `group`, without the agent's "
        "[workspace and home](../use/boards.md#several-people)")]
    isolation: Annotated[str, Option(AUTO,
        "The policies' sandbox: auto (the strongest that works here), bubblewrap, process or none.",
        details="the policies' sandbox: `auto` (the strongest that works here), `bubblewrap`, `process` or `none`")]
    allow_missing: Annotated[Sequence[str], Option([],
        "Play without this sandbox feature if the machine lacks it: seccomp, landlock or program-sandbox. The run is "
        "marked.",
        details="plays without this sandbox feature if the machine lacks it: `seccomp`, `landlock` or "
        "`program-sandbox`; the run is marked ([levels](security.md#levels)); may be given several times",
        metavar="FEATURE", spelling=Spelling.SEVERAL)]
    executor: Annotated[str, Option(LOCAL,
        "Where episodes play: local, ray, or package.module:Class. Results don't depend on it.",
        details="where episodes play: `local`, `ray` ([many machines](../use/cluster.md)) or "
        "`package.module:Class`; results don't depend on it")]
    address: Annotated[str, Option("",
        "The executor's cluster: host:port, ray://host:port or auto. Default: a new one on this machine.",
        details="the executor's cluster: `host:port`, `ray://host:port` or `auto`; without it, a new one on this "
        "machine")]
    track: Annotated[str, Option("",
        "Also log the run to a tracker: trackio, wandb, tensorboard, mlflow or package.module:make.",
        details="also logs the run to [a tracker](../use/tracking.md): `trackio`, `wandb`, `tensorboard`, `mlflow` "
        "or `package.module:make`; results don't depend on it",
        metavar="TRACKER")]


# fmt: on
class CommonOptions(TaskOptions, Knobs, LocationOptions, total=False):
    """The options that all runs of a suite share."""


class AgentOptions(NamedAgent, ProgramOptions, ModelOptions, LimitOptions, total=False):
    """The agent, its model and its limits."""


class RunArguments(ProgramOptions, ModelOptions, LimitOptions, CommonOptions, total=False):
    """All options of a run except the task and the agent, which ``evopolicygym.run`` takes as arguments."""


class RunOptions(AgentOptions, CommonOptions, total=False):
    """All options of a run except the task."""


def declared_options(fields: type, group: str, *tables: str) -> tuple[Option, ...]:
    """Return the options that a ``TypedDict`` declares; ``tables`` of a TOML file contain them."""
    declared = {name: get_args(hint) for name, hint in get_type_hints(fields, include_extras=True).items()}
    return tuple(
        replace(option, name=name, type=kind, group=group, tables=tables) for name, (kind, option) in declared.items()
    )


KNOBS: tuple[Option, ...] = declared_options(Knobs, "What the agent sees and may do")
AGENT_OPTIONS: tuple[Option, ...] = (
    *declared_options(NamedAgent, "The agent", "agent"),
    *declared_options(ProgramOptions, "The agent", "agent"),
    *declared_options(ModelOptions, "Its model", "agent"),
    *declared_options(LimitOptions, "Limits of the agent", "agent", "limits"),
)
COMMON_OPTIONS: tuple[Option, ...] = (
    *declared_options(TaskOptions, "Task and cases"),
    *KNOBS,
    *declared_options(LocationOptions, "Where it runs"),
)
RUN_OPTIONS: tuple[Option, ...] = (*AGENT_OPTIONS, *COMMON_OPTIONS)


def nest_options(options: Iterable[Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return option values as a nested document, like a TOML file's."""
    document: dict[str, Any] = {}
    for option in options:
        if option.name in values:
            table = document
            for name in option.tables:
                table = table.setdefault(name, {})
            table[option.key] = values[option.name]
    return document


def flatten_options(options: Iterable[Option], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return option values by name; the inverse of ``nest_options``."""
    values: dict[str, Any] = {}
    for option in options:
        table: Mapping[str, Any] = document
        for name in option.tables:
            table = table.get(name) or {}
        if option.key in table:
            values[option.name] = table[option.key]
    return values


def get_setting(task: Task, option: Option) -> Setting:
    """Return a task's value of an option."""
    if not option.task_field:
        return format_setting(task.choices.get(option.name, option.default))
    return format_setting(reduce(getattr, option.task_field.split("."), task))


def changed_settings(task: Task, options: Iterable[Option]) -> dict[str, Setting]:
    """Return a task's values of options by name, without the defaults."""
    settings = {option.name: (get_setting(task, option), format_setting(option.default)) for option in options}
    return {name: value for name, (value, default) in settings.items() if value != default}


def format_setting(value: Any) -> Setting:  # noqa: ANN401 - any option's
    """Return an option's value for tables."""
    match value:
        case None:
            return NO_LIMIT
        case Enum():
            return str(value.value)
        case Limits():
            return " ".join(f"{name}={_short(limit)}" for name, limit in sorted(value.changed.items())) or DEFAULT
        case Mapping() if not value:
            return DEFAULT
        case list() | tuple():
            return " ".join(map(str, value))
        case bool() | int() | float() | str():
            return value
    return str(value)


def _short(limit: float) -> str:
    return f"{limit:g}" if isinstance(limit, float) else str(limit)
