"""The options of a run, each declared once, in a line of the group that it belongs to.

From its declaration follow the flag of the command line, the key of a TOML file (of a run and of a suite), the argument
of ``evopolicygym.run``, the row in the docs' table, the name under which the run directory holds it, and whether runs
must agree in it before they are pooled. The groups are ``TypedDict``s, so that type checkers know the arguments.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from functools import reduce
from typing import Annotated, Any, Literal, TypedDict, get_args, get_type_hints

from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.core.task import TRAIN_CASES, Limits, Task

Setting = bool | int | float | str
"""An option's value as tables show it."""
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
    PAIRS_WITH_COMMAS = "pairs with commas"
    """``--name NAME=VALUE,NAME=VALUE``."""
    ARGUMENT = "argument"
    """No flag: the words stand by themselves."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. Its name and its type are those of the field that declares it, its group and tables the group's."""

    default: Any
    """The value where none is given; None also where it is found out later."""
    help: str
    """In a line."""
    details: str = ""
    """What the docs' table says in place of ``help``, in Markdown."""
    default_text: str | None = None
    """The default in words, where the value doesn't say it."""
    metavar: str | None = None
    """What stands for the value in ``--help``."""
    minimum: int | None = None
    spelling: Spelling = Spelling.VALUE
    flag_name: str = ""
    """The flag's name, where it isn't the option's."""
    other_flags: tuple[str, ...] = ()
    """Flags that mean the same."""
    key_name: str = ""
    """The key in a TOML file, where it isn't the option's name."""
    in_suites: bool = True
    """Whether the command line of a suite has it too."""
    suite_help: str = ""
    """The help of a suite's flag, where it isn't the same."""
    comparability_label: str = ""
    """What runs that are pooled must agree in, in words; empty where they needn't."""
    task_field: str = ""
    """Where a task holds it, such as ``budget.episodes``; empty for one among the task's ``choices``, by its name."""
    record_field: str = ""
    """The property of a run's result that holds it; empty for one that stands among its ``choices``, by its name."""
    affects_cases: bool = False
    """Whether it decides on which cases runs are scored, so that entries can't be split by it."""
    crossable: bool = False
    """Whether a suite may cross it though runs needn't agree in it."""
    name: str = ""
    type: Any = None
    """Of its value."""
    group: str = "Other options"
    """The heading below which ``--help`` shows it."""
    tables: tuple[str, ...] = ()
    """The tables of a TOML file that it lies in, from the outermost; none for the top of the file."""

    @property
    def flag(self) -> str:
        """The flag of the command line; empty where there is none."""
        if self.spelling is Spelling.ARGUMENT:
            return ""
        return "--" + (self.flag_name or self.name).replace("_", "-")

    @property
    def key(self) -> str:
        """Its key in its table of a TOML file."""
        return self.key_name or self.name

    @property
    def path(self) -> tuple[str, ...]:
        """The keys of a TOML file that lead to it."""
        return (*self.tables, self.key)

    @property
    def in_table(self) -> "Option":
        """The option as the outermost of its tables sees it."""
        return replace(self, tables=self.tables[1:])

    @property
    def is_knob(self) -> bool:
        """Whether a suite may cross it: runs that differ in it alone are of one experiment, on the same cases."""
        return self.crossable or bool(self.comparability_label and not self.affects_cases)

    @property
    def default_shown(self) -> str:
        """The default in words; empty where there is nothing to say."""
        if self.default_text is not None:
            return self.default_text
        return "" if self.default in (None, "", [], {}) else str(self.default)


# One option is one declaration, wrapped as prose is: the formatter would give each argument a line of its own.
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
        help="Run COMMAND in this terminal: you see what it prints, and may type.",
        details="runs the COMMAND in this terminal, so that you see what it prints, and may type", in_suites=False)]
    label: Annotated[str, Option("", "What tables and exports call the agent, such as mine-v2.",
        details="what tables and exports call the agent, in place of its name and its command; up to 80 "
        "characters. Beside it the record keeps a SHA-256 of the files that a COMMAND names (column `program`), "
        "so that two versions of one program are distinguished",
        in_suites=False)]
    options: Annotated[Mapping[str, Any], Option({},
        "An extra option of this agent, such as quiet_s=900; may be given several times.",
        details="`NAME=VALUE`, an extra option of this agent, such as `program=/opt/codex`, `max_turns=3`, "
        "`quiet_s=900` or `memory_mb=4096`; may be given several times",
        suite_help="An extra option of every agent; may be given several times.", metavar="NAME=VALUE",
        spelling=Spelling.PAIRS, flag_name="option")]


class ModelOptions(TypedDict, total=False):
    """The model that the agent uses."""

    model: Annotated[str, Option("", "The model that the agent uses, where it uses one.",
        suite_help="The model of every agent that names none.", crossable=True)]
    effort: Annotated[str, Option("", "The model's reasoning effort, such as low or high.",
        details="the model's reasoning effort, see [agents](../use/agents.md#how-much-the-model-thinks)",
        metavar="LEVEL", crossable=True)]
    model_url: Annotated[str, Option("",
        "The one model server that the agent may reach, through a proxy that counts tokens.",
        details="the one model server that the agent may reach, through [a proxy](../use/model_proxy.md) that "
        "counts tokens; [`neutral`](neutral.md) asks it from outside")]
    model_key: Annotated[str, Option("", "The environment variable that holds the model server's key.",
        details="the environment variable that holds the model server's key; no program of the agent ever sees it",
        metavar="VARIABLE")]
    model_wire: Annotated[str, Option("", "The API of the server: auto, responses, chat, messages or gemini.",
        details="the API of the server: `auto`, `responses`, `chat`, `messages` or `gemini`", default_text="auto")]
    price: Annotated[Mapping[str, float] | None, Option(None,
        "What a million tokens cost, in USD: input=1.25,cached_input=0.125,output=10.",
        details="what a million tokens cost in USD: `input=1.25,cached_input=0.125,output=10`",
        default_text="looked up", metavar="NAME=USD,…", spelling=Spelling.PAIRS_WITH_COMMAS, in_suites=False)]


class LimitOptions(TypedDict, total=False):
    """How much the agent may use."""

    max_cost: Annotated[float | None, Option(None, "The most that the model may cost.",
        details="the most USD that the model may cost ([limits](../use/agents.md#what-a-run-may-use))",
        suite_help="The most that the model may cost in a run.", metavar="USD", crossable=True)]
    max_tokens: Annotated[int | None, Option(None,
        "The most tokens that the model may use, input and output together.",
        suite_help="The most tokens that the model may use in a run.", crossable=True)]
    max_time: Annotated[float | str | None, Option(None,
        "The most wall time of all turns: seconds, or 45m, 2h30m, 1d; none for no limit.",
        default_text="1d for a COMMAND", metavar="DURATION", crossable=True)]
    max_turns: Annotated[int | None, Option(None, "The most turns of the agent.", crossable=True)]


class TaskOptions(TypedDict, total=False):
    """What is played: how much of it, on which cases."""

    budget: Annotated[int, Option(128, "Train episodes that the agent may spend.",
        comparability_label="episode budget", task_field="budget.episodes", record_field="budget")]
    validation: Annotated[int, Option(16, "Hidden cases that pick the checkpoint, 1 to 64.",
        comparability_label="number of validation cases", task_field="validation_cases",
        record_field="validation_cases", affects_cases=True)]
    held_out: Annotated[int, Option(32, "Hidden cases that score the picked checkpoint, 1 to 256.",
        comparability_label="number of held-out cases", task_field="held_out_cases", record_field="held_out_cases",
        affects_cases=True)]
    films: Annotated[int, Option(0, "Films of its train episodes that the agent may ask for.",
        details="[films](../use/films.md#films-for-an-agent) of its train episodes that the agent may ask for",
        comparability_label="films that an agent may ask for", task_field="films", record_field="films")]
    imports: Annotated[Sequence[str], Option([],
        "A module whose import registers the environment's id; may be given several times.",
        details="a module whose import registers the environment's [id](../use/packs.md#any-registered-id); may "
        "be given several times",
        metavar="MODULE", spelling=Spelling.SEVERAL, flag_name="import", in_suites=False)]
    make: Annotated[Mapping[str, Any], Option({},
        "An argument of gymnasium.make for an environment named by its id; may be given several times.",
        details="`NAME=VALUE`, an argument of `gymnasium.make` for an environment that is named by [its "
        "id](../use/packs.md#any-registered-id); may be given several times",
        metavar="NAME=VALUE", spelling=Spelling.PAIRS, in_suites=False)]
    policy_packages: Annotated[Sequence[str], Option([],
        "Installed packages that policies may import besides numpy and scipy.",
        details="`NAME[,NAME]`, installed packages that [policies may "
        "import](../use/agents.md#what-policies-can-import) besides numpy and scipy",
        metavar="NAME[,NAME]", spelling=Spelling.COMMAS, comparability_label="packages that policies may import",
        task_field="policy_packages", record_field="policy_packages")]
    split: Annotated[str, Option("private",
        "Where cases come from: private, public, or a directory with train.json, valid.json, heldout.json.",
        details="where cases come from: `private`, `public`, or a directory with `train.json`, `valid.json` and "
        "`heldout.json`")]
    experiment: Annotated[str, Option(DEFAULT_EXPERIMENT, "Runs of one experiment play the same cases.",
        suite_help="The experiment that the suite's runs belong to. Default: the suite's name.")]
    seed: Annotated[int, Option(0,
        "Seed of the agent's and the policies' random numbers, not of the cases; 0 to 4294967295.",
        suite_help="Seed of the first repeat; each further repeat takes the next.")]


class Knobs(TypedDict, total=False):
    """What an agent is shown and allowed, which experiments vary."""

    text: Annotated[Literal["full", "terse"], Option("full",
        "How much the task's text says of the environment: full, or terse without equations and constants.",
        details="how much [the task's text](../use/knobs.md#text) says of the environment: `full`, or `terse`, "
        "which has no equations, constants or advice",
        comparability_label="text of the task")]
    feedback: Annotated[Literal["full", "traces", "returns"], Option("full",
        "What a submission leaves to read: full, traces (no films) or returns (no trajectories).",
        details="what [a submission leaves to read](../use/knobs.md#feedback): `full`, `traces` (no films) or "
        "`returns` (no trajectories)",
        comparability_label="feedback", task_field="feedback", record_field="feedback")]
    finish: Annotated[bool, Option(default=False, help="Let the agent end the run with episodes unspent.",
        details="lets the agent end the run with episodes unspent; an agent outside, and a person, always may",
        comparability_label="whether the agent may finish early", task_field="finish_allowed", record_field="finish")]
    min_episodes: Annotated[int, Option(1, "The fewest episodes of one submission.",
        minimum=1, comparability_label="fewest episodes of a submission", task_field="budget.min_per_submission")]
    max_episodes: Annotated[int | None, Option(None, "The most episodes of one submission.",
        default_text="all that are left", minimum=1, comparability_label="most episodes of a submission",
        task_field="budget.max_per_submission")]
    max_submissions: Annotated[int | None, Option(None,
        "The most submissions; the run closes with the last of them.",
        details="the most submissions; the run closes with the last of them, whatever is left of the budget",
        default_text="no limit", minimum=1, comparability_label="most submissions",
        task_field="budget.max_submissions")]
    train_cases: Annotated[int, Option(TRAIN_CASES, "Train cases that the agent may name, 1 to 1024.",
        comparability_label="number of train cases", task_field="train_cases")]
    policy_limits: Annotated[Mapping[str, float], Option({},
        "What a policy may use, such as act_s=2 or memory_mb=512; may be given several times.",
        details="`NAME=VALUE`, [what a policy may use](../use/knobs.md#policy-limits): `load_s`, `reset_s`, "
        "`act_s`, `episode_s`, `memory_mb`, `output_kb`, `checkpoint_mb` or `checkpoint_files`; may be given "
        "several times",
        metavar="NAME=VALUE", spelling=Spelling.PAIRS, flag_name="policy_limit",
        comparability_label="limits of a policy", task_field="limits")]


class PlaceOptions(TypedDict, total=False):
    """Where a run plays, and where its run directory goes."""

    workers: Annotated[int | None, Option(None, "Episodes that play at once.",
        details="episodes that play at once, no more than there are cores or episodes; results don't depend on it",
        suite_help="Episodes of a run that play at once. Default: one for each of its cores.",
        default_text="one for each core", minimum=1)]
    runs: Annotated[str, Option(str(DEFAULT_RUNS), "The directory for records.")]
    isolation: Annotated[str, Option(AUTO,
        "How policies are isolated: auto (the strongest that works here), bubblewrap, process or none.",
        details="how policies are isolated: `auto` (the strongest that works here), `bubblewrap`, `process` or "
        "`none`")]
    waive: Annotated[Sequence[str], Option([],
        "Play even where this wall is missing: seccomp, landlock or program-sandbox. The run is marked.",
        details="plays even where this wall is missing, `seccomp`, `landlock` or `program-sandbox`; the run is "
        "marked ([levels](security.md#levels)); may be given several times",
        metavar="WALL", spelling=Spelling.SEVERAL, other_flags=("--allow-missing",))]
    executor: Annotated[str, Option(LOCAL,
        "Where episodes play: local, ray, or package.module:Class. Results don't depend on it.",
        details="where episodes play: `local`, `ray` ([many machines](../use/cluster.md)) or "
        "`package.module:Class`; results don't depend on it")]
    address: Annotated[str, Option("",
        "The executor's cluster: host:port, ray://host:port or auto. Default: one on this machine.",
        details="the executor's cluster: `host:port`, `ray://host:port` or `auto`; without it, one on this machine")]
    track: Annotated[str, Option("",
        "Log the run besides: trackio, wandb, tensorboard, mlflow or package.module:make.",
        details="logs the run to [a tracker](../use/tracking.md) besides: `trackio`, `wandb`, `tensorboard`, "
        "`mlflow` or `package.module:make`; results don't depend on it",
        metavar="TRACKER")]


# fmt: on
class CommonOptions(TaskOptions, Knobs, PlaceOptions, total=False):
    """What all runs of a suite have in common."""


class AgentOptions(NamedAgent, ProgramOptions, ModelOptions, LimitOptions, total=False):
    """Who plays, with which model, and how much it may use."""


class RunArguments(ProgramOptions, ModelOptions, LimitOptions, CommonOptions, total=False):
    """All options of a run but the task and the agent, which a program may give as a function."""


class RunOptions(AgentOptions, CommonOptions, total=False):
    """All options of a run but the task itself."""


def declared_options(fields: type, group: str, *tables: str) -> tuple[Option, ...]:
    """Return the options of a group; ``tables`` of a TOML file hold them."""
    declared = {name: get_args(hint) for name, hint in get_type_hints(fields, include_extras=True).items()}
    return tuple(
        replace(option, name=name, type=kind, group=group, tables=tables) for name, (kind, option) in declared.items()
    )


KNOBS: tuple[Option, ...] = declared_options(Knobs, "What the agent is shown and allowed")
AGENT_OPTIONS: tuple[Option, ...] = (
    *declared_options(NamedAgent, "The agent", "agent"),
    *declared_options(ProgramOptions, "The agent", "agent"),
    *declared_options(ModelOptions, "Its model", "agent"),
    *declared_options(LimitOptions, "Limits of the agent", "agent", "limits"),
)
COMMON_OPTIONS: tuple[Option, ...] = (
    *declared_options(TaskOptions, "Task and cases"),
    *KNOBS,
    *declared_options(PlaceOptions, "Where it runs"),
)
RUN_OPTIONS: tuple[Option, ...] = (*AGENT_OPTIONS, *COMMON_OPTIONS)


def nest_options(options: Iterable[Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of options as a TOML file has them: each in its table."""
    document: dict[str, Any] = {}
    for option in options:
        if option.name in values:
            table = document
            for name in option.tables:
                table = table.setdefault(name, {})
            table[option.key] = values[option.name]
    return document


def flatten_options(options: Iterable[Option], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of options by their names, of a document as ``nest_options`` makes it."""
    values: dict[str, Any] = {}
    for option in options:
        table: Mapping[str, Any] = document
        for name in option.tables:
            table = table.get(name) or {}
        if option.key in table:
            values[option.name] = table[option.key]
    return values


def setting(task: Task, option: Option) -> Setting:
    """Return what a task was set to in an option that runs must agree in."""
    if not option.task_field:
        return plain(task.choices.get(option.name, option.default))
    return plain(reduce(getattr, option.task_field.split("."), task))


def changed_settings(task: Task, options: Iterable[Option]) -> dict[str, Setting]:
    """Return what a task was set to in each of these options, by name, where it isn't the default."""
    found = {option.name: (setting(task, option), plain(option.default)) for option in options}
    return {name: value for name, (value, default) in found.items() if value != default}


def plain(value: Any) -> Setting:  # noqa: ANN401 - any option's
    """Return an option's value as tables show it."""
    match value:
        case None:
            return NO_LIMIT
        case Enum():
            return str(value.value)
        case Limits():
            return " ".join(f"{name}={_short(of)}" for name, of in sorted(value.changed.items())) or DEFAULT
        case Mapping() if not value:
            return DEFAULT
        case list() | tuple():
            return " ".join(map(str, value))
        case bool() | int() | float() | str():
            return value
    return str(value)


def _short(limit: float) -> str:
    return f"{limit:g}" if isinstance(limit, float) else str(limit)
