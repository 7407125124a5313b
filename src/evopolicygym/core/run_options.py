"""The options of a run: all that a person, a file or a program may ask for when a run begins.

To add one, add a field here. What is declared of it is described in ``option.py``; what becomes of its value is decided
where runs are configured.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from evopolicygym.core.option import DeclaredOption, Option, Spelling, declared_options
from evopolicygym.core.places import DEFAULT_RUNS

DEFAULT_AGENT, COMMAND = "tuner", "command"
DEFAULT_EXPERIMENT = "default"
AUTO, LOCAL = "auto", "local"
AGENT, MODEL, LIMITS, CASES, PLACE = "The agent", "Its model", "Limits of the agent", "Task and cases", "Where it runs"
IN_AGENT, IN_LIMITS = ("agent",), ("agent", "limits")


class NamedAgent(TypedDict, total=False):
    """Which agent plays."""

    agent: Annotated[
        str,
        Option(
            help="The agent: a built-in's name or package.module:make. With COMMAND: command.",
            details="a built-in agent's name, or `package.module:make`",
            default="",
            default_shown=DEFAULT_AGENT,
            group=AGENT,
            tables=IN_AGENT,
            key="name",
            in_suites=False,
        ),
    ]


class AgentDetails(TypedDict, total=False):
    """What an agent is given: its program, its model, and how much it may use."""

    command: Annotated[
        Sequence[str],
        Option(
            help="A program that is the agent; started once in the workspace.",
            default=[],
            group=AGENT,
            metavar="[-- COMMAND …]",
            spelling=Spelling.ARGUMENT,
            tables=IN_AGENT,
            in_suites=False,
        ),
    ]
    label: Annotated[
        str,
        Option(
            help="What tables and exports call the agent, such as mine-v2.",
            details="what tables and exports call the agent, in place of its name and its command; up to 80 "
            "characters. Beside it the record keeps a SHA-256 of the files that a COMMAND names (column `program`), so "
            "that two versions of one program are distinguished",
            default="",
            group=AGENT,
            tables=IN_AGENT,
            in_suites=False,
        ),
    ]
    options: Annotated[
        Mapping[str, Any],
        Option(
            help="An extra option of this agent, such as quiet_s=900; may be given several times.",
            details="`NAME=VALUE`, an extra option of this agent, such as `program=/opt/codex`, `max_turns=3`, "
            "`quiet_s=900` or `memory_mb=4096`; may be given several times",
            suite_help="An extra option of every agent; may be given several times.",
            default={},
            group=AGENT,
            metavar="NAME=VALUE",
            spelling=Spelling.PAIRS,
            flag="option",
            tables=IN_AGENT,
        ),
    ]
    model: Annotated[
        str,
        Option(
            help="The model that the agent uses, where it uses one.",
            suite_help="The model of every agent that names none.",
            default="",
            group=MODEL,
            tables=IN_AGENT,
        ),
    ]
    effort: Annotated[
        str,
        Option(
            help="The model's reasoning effort, such as low or high.",
            details="the model's reasoning effort, see [agents](../use/agents.md#how-much-the-model-thinks)",
            default="",
            group=MODEL,
            metavar="LEVEL",
            tables=IN_AGENT,
        ),
    ]
    model_url: Annotated[
        str,
        Option(
            help="The one model server that the agent may reach, through a proxy that counts tokens.",
            details="the one model server that the agent may reach, through [a proxy](../use/model_proxy.md) that "
            "counts tokens; [`neutral`](neutral.md) asks it from outside",
            default="",
            group=MODEL,
            tables=IN_AGENT,
        ),
    ]
    model_key: Annotated[
        str,
        Option(
            help="The environment variable that holds the model server's key.",
            details="the environment variable that holds the model server's key; no program of the agent ever sees it",
            default="",
            group=MODEL,
            metavar="VARIABLE",
            tables=IN_AGENT,
        ),
    ]
    model_wire: Annotated[
        str,
        Option(
            help="What the server speaks: auto, responses, chat, messages or gemini.",
            details="what the server speaks: `auto`, `responses`, `chat`, `messages` or `gemini`",
            default="",
            default_shown="auto",
            group=MODEL,
            tables=IN_AGENT,
        ),
    ]
    price: Annotated[
        Mapping[str, float] | None,
        Option(
            help="What a million tokens cost: input=1.25,cached_input=0.125,output=10. Else it is looked up.",
            details="what a million tokens cost in USD: `input=1.25,cached_input=0.125,output=10`",
            default_shown="looked up",
            group=MODEL,
            metavar="NAME=USD,…",
            spelling=Spelling.PAIRS_WITH_COMMAS,
            tables=IN_AGENT,
            in_suites=False,
        ),
    ]
    max_cost: Annotated[
        float | None,
        Option(
            help="What the model may cost.",
            details="USD that the model may cost ([limits](../use/agents.md#what-a-run-may-use))",
            suite_help="What the model may cost in a run.",
            group=LIMITS,
            metavar="USD",
            tables=IN_LIMITS,
        ),
    ]
    max_tokens: Annotated[
        int | None,
        Option(
            help="Tokens that the model may use, input and output.",
            suite_help="Tokens that the model may use in a run.",
            group=LIMITS,
            tables=IN_LIMITS,
        ),
    ]
    max_time: Annotated[
        float | str | None,
        Option(
            help="Wall time of the agent's turns together: seconds, or 45m, 2h30m, 1d; none for no limit.",
            default_shown="1d for a COMMAND",
            group=LIMITS,
            metavar="DURATION",
            tables=IN_LIMITS,
        ),
    ]
    max_turns: Annotated[int | None, Option(help="Turns of the agent.", group=LIMITS, tables=IN_LIMITS)]


class CommonOptions(TypedDict, total=False):
    """What all runs of a suite have in common."""

    budget: Annotated[
        int,
        Option(
            help="Train episodes that the agent may spend.",
            default=128,
            group=CASES,
            compared_as="episode budget",
            recorded_as="budget",
        ),
    ]
    validation: Annotated[
        int,
        Option(
            help="Hidden cases that pick the checkpoint, 1 to 64.",
            default=16,
            group=CASES,
            compared_as="number of validation cases",
            recorded_as="validation_cases",
            of_cases=True,
        ),
    ]
    held_out: Annotated[
        int,
        Option(
            help="Hidden cases that score it, 1 to 256.",
            default=32,
            group=CASES,
            compared_as="number of held-out cases",
            recorded_as="held_out_cases",
            of_cases=True,
        ),
    ]
    films: Annotated[
        int,
        Option(
            help="Films of its train episodes that the agent may ask for.",
            details="[films](../use/films.md#films-for-an-agent) of its train episodes that the agent may ask for",
            default=0,
            group=CASES,
            compared_as="films that an agent may ask for",
            recorded_as="films",
        ),
    ]
    policy_packages: Annotated[
        Sequence[str],
        Option(
            help="Installed packages that policies may import besides numpy and scipy.",
            details="`NAME[,NAME]`, installed packages that [policies may import]"
            "(../use/agents.md#what-policies-can-import) besides numpy and scipy",
            default=[],
            group=CASES,
            metavar="NAME[,NAME]",
            spelling=Spelling.COMMAS,
            compared_as="packages that policies may import",
            recorded_as="policy_packages",
        ),
    ]
    split: Annotated[
        str,
        Option(
            help="private, public, or a directory with train.json, valid.json, heldout.json.",
            details="`private`, `public`, or a directory with `train.json`, `valid.json` and `heldout.json`",
            default="private",
            group=CASES,
        ),
    ]
    experiment: Annotated[
        str,
        Option(
            help="Runs of one experiment play the same cases.",
            suite_help="The experiment that the suite's runs belong to. Default: its name.",
            default=DEFAULT_EXPERIMENT,
            group=CASES,
        ),
    ]
    seed: Annotated[
        int,
        Option(
            help="Of the agent and of the policies' random numbers; not of the cases. 0 to 4294967295.",
            suite_help="Of the first repeat; each further one has the next.",
            default=0,
            group=CASES,
        ),
    ]
    workers: Annotated[
        int | None,
        Option(
            help="Episodes that play at once. Default: one for each core.",
            details="episodes that play at once, at most one a core and as many as there are; results don't "
            "depend on it",
            suite_help="Episodes of a run that play at once. Default: one for each of its cores.",
            default_shown="one a core",
            group=PLACE,
            minimum=1,
        ),
    ]
    runs: Annotated[str, Option(help="Where records go.", default=str(DEFAULT_RUNS), group=PLACE)]
    isolation: Annotated[
        str,
        Option(
            help="auto (the strongest that works here), bubblewrap, process or none.",
            details="`auto` (the strongest that works here), `bubblewrap`, `process` or `none`",
            default=AUTO,
            group=PLACE,
        ),
    ]
    waive: Annotated[
        Sequence[str],
        Option(
            help="Play even without this wall: seccomp, landlock or program-sandbox. The run is marked.",
            details="plays even without this wall, `seccomp`, `landlock` or `program-sandbox`; the run is marked "
            "([levels](security.md#levels)); may be given several times",
            default=[],
            group=PLACE,
            metavar="WALL",
            spelling=Spelling.SEVERAL,
        ),
    ]
    executor: Annotated[
        str,
        Option(
            help="Where episodes play: local, ray, or package.module:Class. Results don't depend on it.",
            details="where episodes play: `local`, `ray` ([many machines](../use/cluster.md)) or "
            "`package.module:Class`; results don't depend on it",
            default=LOCAL,
            group=PLACE,
        ),
    ]
    address: Annotated[
        str,
        Option(
            help="The executor's cluster: host:port, ray://host:port or auto. Default: one of its own.",
            details="the executor's cluster: `host:port`, `ray://host:port` or `auto`; without it, one of this machine",
            default="",
            group=PLACE,
        ),
    ]


class AgentOptions(NamedAgent, AgentDetails, total=False):
    """Who plays, with which model, and how much it may use."""


class RunArguments(AgentDetails, CommonOptions, total=False):
    """All options of a run but the task and the agent, which a program may give as a function."""


class RunOptions(AgentOptions, CommonOptions, total=False):
    """All options of a run but the task itself."""


AGENT_OPTIONS: tuple[DeclaredOption, ...] = declared_options(AgentOptions)
COMMON_OPTIONS: tuple[DeclaredOption, ...] = declared_options(CommonOptions)
RUN_OPTIONS: tuple[DeclaredOption, ...] = (*AGENT_OPTIONS, *COMMON_OPTIONS)
