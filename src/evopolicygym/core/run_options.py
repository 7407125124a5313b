"""The options of a run: all that a person, a file or a program may ask for when a run begins.

To add one, add a field here, in ``task_options.py`` where it says what is played, or in ``knobs.py`` where it says what
an agent is shown or allowed. What is declared of it is described in ``option.py``; what becomes of its value is decided
where runs are configured.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from evopolicygym.core.knobs import Knobs
from evopolicygym.core.option import DeclaredOption, Option, Spelling, declared_options
from evopolicygym.core.places import DEFAULT_RUNS
from evopolicygym.core.task_options import TaskOptions

DEFAULT_AGENT, COMMAND = "tuner", "command"
AUTO, LOCAL = "auto", "local"
AGENT, MODEL, LIMITS, PLACE = "The agent", "Its model", "Limits of the agent", "Where it runs"
IN_AGENT, IN_LIMITS = ("agent",), ("agent", "limits")


class NamedAgent(TypedDict, total=False):
    """Which agent plays."""

    agent: Annotated[
        str,
        Option(
            help="The agent: a built-in agent's name, or package.module:make. With a COMMAND it is 'command'.",
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
            help="A program that is the agent, started once in the workspace.",
            default=[],
            group=AGENT,
            metavar="[-- COMMAND …]",
            spelling=Spelling.ARGUMENT,
            tables=IN_AGENT,
            in_suites=False,
        ),
    ]
    interactive: Annotated[
        bool,
        Option(
            help="Run COMMAND in this terminal: you see what it prints, and may type.",
            details="runs the COMMAND in this terminal, so that you see what it prints, and may type",
            default=False,
            group=AGENT,
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
            crossed=True,
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
            crossed=True,
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
            help="The API of the server: auto, responses, chat, messages or gemini.",
            details="the API of the server: `auto`, `responses`, `chat`, `messages` or `gemini`",
            default="",
            default_shown="auto",
            group=MODEL,
            tables=IN_AGENT,
        ),
    ]
    price: Annotated[
        Mapping[str, float] | None,
        Option(
            help="What a million tokens cost, in USD: input=1.25,cached_input=0.125,output=10.",
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
            help="The most that the model may cost.",
            details="the most USD that the model may cost ([limits](../use/agents.md#what-a-run-may-use))",
            suite_help="The most that the model may cost in a run.",
            group=LIMITS,
            metavar="USD",
            tables=IN_LIMITS,
            crossed=True,
        ),
    ]
    max_tokens: Annotated[
        int | None,
        Option(
            help="The most tokens that the model may use, input and output together.",
            suite_help="The most tokens that the model may use in a run.",
            group=LIMITS,
            tables=IN_LIMITS,
            crossed=True,
        ),
    ]
    max_time: Annotated[
        float | str | None,
        Option(
            help="The most wall time of all turns: seconds, or 45m, 2h30m, 1d; none for no limit.",
            default_shown="1d for a COMMAND",
            group=LIMITS,
            metavar="DURATION",
            tables=IN_LIMITS,
            crossed=True,
        ),
    ]
    max_turns: Annotated[
        int | None, Option(help="The most turns of the agent.", group=LIMITS, tables=IN_LIMITS, crossed=True)
    ]


class PlaceOptions(TypedDict, total=False):
    """Where a run plays, and where its record goes."""

    workers: Annotated[
        int | None,
        Option(
            help="Episodes that play at once.",
            details="episodes that play at once, no more than there are cores or episodes; results don't depend on it",
            suite_help="Episodes of a run that play at once. Default: one for each of its cores.",
            default_shown="one for each core",
            group=PLACE,
            minimum=1,
        ),
    ]
    runs: Annotated[str, Option(help="The directory for records.", default=str(DEFAULT_RUNS), group=PLACE)]
    isolation: Annotated[
        str,
        Option(
            help="How policies are isolated: auto (the strongest that works here), bubblewrap, process or none.",
            details="how policies are isolated: `auto` (the strongest that works here), `bubblewrap`, `process` "
            "or `none`",
            default=AUTO,
            group=PLACE,
        ),
    ]
    waive: Annotated[
        Sequence[str],
        Option(
            help="Play even where this wall is missing: seccomp, landlock or program-sandbox. The run is marked.",
            details="plays even where this wall is missing, `seccomp`, `landlock` or `program-sandbox`; the run is "
            "marked ([levels](security.md#levels)); may be given several times",
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
            help="The executor's cluster: host:port, ray://host:port or auto. Default: one on this machine.",
            details="the executor's cluster: `host:port`, `ray://host:port` or `auto`; without it, one on this machine",
            default="",
            group=PLACE,
        ),
    ]
    track: Annotated[
        str,
        Option(
            help="Log the run besides: trackio, wandb, tensorboard, mlflow or package.module:make.",
            details="logs the run to [a tracker](../use/tracking.md) besides: `trackio`, `wandb`, `tensorboard`, "
            "`mlflow` or `package.module:make`; results don't depend on it",
            default="",
            group=PLACE,
            metavar="TRACKER",
        ),
    ]


class CommonOptions(TaskOptions, Knobs, PlaceOptions, total=False):
    """What all runs of a suite have in common."""


class AgentOptions(NamedAgent, AgentDetails, total=False):
    """Who plays, with which model, and how much it may use."""


class RunArguments(AgentDetails, CommonOptions, total=False):
    """All options of a run but the task and the agent, which a program may give as a function."""


class RunOptions(AgentOptions, CommonOptions, total=False):
    """All options of a run but the task itself."""


AGENT_OPTIONS: tuple[DeclaredOption, ...] = declared_options(AgentOptions)
COMMON_OPTIONS: tuple[DeclaredOption, ...] = declared_options(CommonOptions)
RUN_OPTIONS: tuple[DeclaredOption, ...] = (*AGENT_OPTIONS, *COMMON_OPTIONS)
