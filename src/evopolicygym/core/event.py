"""The events of a run. Each is a line of the event log; ``core/run.py`` folds them into the run's state.

Times are ISO 8601 in UTC. No event contains a case's seed or a path of the host.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from evopolicygym.core.agent import AgentConfig, PriceSnapshot
from evopolicygym.core.cases import Split, SplitSource
from evopolicygym.core.interface import shown_spec
from evopolicygym.core.rollout import Episode
from evopolicygym.core.submission import LoadError, Setting, SubmissionStatus
from evopolicygym.core.task import EnvironmentSpec, Task

SCHEMA = 3
"""The schema of the event log, ``run.json`` and ``post_hoc.json``. No other schema is read."""
RELEASE_MARK = "(paper's release)"
"""What follows the agent of a run of the paper's release in the name of its entry."""
SCHEMA_VERSION = "1"
"""The schema of ``summary.json``, ``GET /info``, films and suites."""


class CloseReason(StrEnum):
    """Why a run accepts no more submissions."""

    BUDGET_SPENT = "budget_spent"
    SUBMISSIONS_SPENT = "submissions_spent"
    """The limit on submissions was reached with budget left."""
    FINISH_ASKED = "finish_asked"
    """The agent ended the run with budget left."""
    AGENT_ENDED = "agent_ended"
    """The agent ended all its turns with budget left."""
    ALLOWANCE_SPENT = "allowance_spent"
    """A limit of cost, tokens, time or turns was reached with budget left."""


class RunStatus(StrEnum):
    """How a run ended."""

    SCORED = "scored"
    NO_OK_SUBMIT = "no_ok_submit"
    """There was no candidate to select."""


class StopReason(StrEnum):
    """Why a run was stopped before its end; it can be resumed."""

    INTERRUPTED = "interrupted"
    """A signal, from the user or at the shutdown of the machine."""
    ENVIRONMENT = "env_error"
    """A simulator failed on a valid action in every attempt at a case."""
    SANDBOX = "sandbox_error"
    AGENT = "agent_error"
    """The agent could not be started."""
    STORAGE = "not_stored"
    """Something could not be written, for example because the disk is full."""
    ERROR = "error"
    """Anything else."""


@dataclass(frozen=True, slots=True)
class RunOpened:
    """The first event: the task, the agent, versions and cases."""

    time: str
    run_id: str
    protocol_version: str
    task: Task
    agent: AgentConfig
    seed: int
    split: SplitSource
    experiment: str
    """The name of the secret in the user's state directory."""
    commitment: str
    """Salted hash of the cases (``core.cases.commitment``)."""
    versions: Mapping[str, str]
    spec_sha256: str
    isolation: str
    findings: Mapping[str, str] = field(default_factory=dict)
    observation_schema: Mapping[str, Any] = field(default_factory=dict)
    action_schema: Mapping[str, Any] = field(default_factory=dict)
    price: PriceSnapshot | None = None
    """The price of the agent's model; None if unknown, or without a model."""
    simulator_code: Mapping[str, str] = field(default_factory=dict)
    """The modules that create the environment, each with a hash of its files; empty if gymnasium alone creates it."""
    revealed: bool = False
    """Whether the experiment's secret was already published, so that its cases were not hidden."""
    interface: Mapping[str, Any] = field(default_factory=dict)
    """The interface through which the environment is played (``core/interface.py``); empty for the standard one."""
    schema_version: int = SCHEMA
    evopolicygym_version: str = ""
    """The version of this package, with its commit where it lies in a checkout; empty in older records."""
    agent_version: str = ""
    """The version of the agent's tool or library, in its words; empty where it is unknown."""
    model_details: Mapping[str, str] = field(default_factory=dict)
    """What the model's server told of the model, and the sampling that was asked for, by name; empty if unknown."""
    nonce: str = ""
    """The nonce of a board, from which the cases are derived too; empty without one."""
    readable: str = ""
    """``group`` if the group of the run directory may read it once nobody plays the run; else empty."""
    hidden_pace: float = 0.0
    """How many times the time of its train episodes a policy may take over a hidden one (``RunState.hidden_limit_s``);
    0 in older records, which have no such limit."""
    hidden_grace_s: float = 0.0
    """Seconds that it may take besides."""
    repeats: bool | None = None
    """Whether two processes played short episodes alike; None for an environment that ships, and in older records."""
    cases_differ: bool | None = None
    """Whether the same actions gave other short episodes for other seeds; None as for ``repeats``."""

    @property
    def entry(self) -> str:
        """The name of the run's entry in tables."""
        return self.agent.entry if self.task.environment.is_known else f"{self.agent.entry} {RELEASE_MARK}"

    @property
    def shown_environment(self) -> EnvironmentSpec:
        """The environment as its agent is shown it."""
        return shown_spec(self.task.environment, self.interface)


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A process resumed the run."""

    time: str
    program_sha256: str = ""
    """Hash of the agent's program if it changed and the user allowed that; else empty."""


@dataclass(frozen=True, slots=True)
class RunStopped:
    """The run was stopped cleanly; a killed process leaves no such event."""

    time: str
    reason: StopReason
    message: str = ""
    """One line about the failure; empty for an interruption."""


@dataclass(frozen=True, slots=True)
class AgentStarted:
    """A turn of the agent began."""

    time: str
    turn: int


@dataclass(frozen=True, slots=True)
class AgentMetered:
    """The usage of the current turn so far, in case its process dies.

    Recorded after each model request, and from time to time.
    """

    time: str
    turn: int
    seconds: float
    """Seconds since the turn started in this process."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """As in ``AgentEnded``."""


@dataclass(frozen=True, slots=True)
class AgentEnded:
    """A turn of the agent ended."""

    time: str
    turn: int
    end: str
    message: str = ""
    findings: Mapping[str, str] = field(default_factory=dict)
    """What the agent's sandbox enforced, by name; empty if there was none."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """Usage of the model proxy in this turn, by name; empty if there was no proxy."""
    tool_usage: Mapping[str, float] = field(default_factory=dict)
    """Usage in this turn as reported by the agent's own tool; empty if it reports none."""
    seconds: float = 0.0
    """Wall time of the turn."""


@dataclass(frozen=True, slots=True)
class SubmissionCharged:
    """A submission was charged. On disk before any code of the agent runs."""

    time: str
    submit_index: int
    checkpoint: str
    """The checkpoint's name, a SHA-256."""
    env_instances: tuple[int, ...]
    key: str = ""
    """The client's key, with which a request can be repeated; empty if there is none."""
    films: tuple[int, ...] = ()
    """Positions in ``env_instances`` of the episodes to film."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Values that the request set for the policy's parameters, by name; part of the checkpoint."""
    parent: int | None = None
    """The submission that the policy was made from, as the agent declared, or ``STARTER``; None if not declared."""
    hypothesis: str = ""
    """What the agent expects of the submission, in its words; may be empty."""


@dataclass(frozen=True, slots=True)
class PolicyRestored:
    """The agent restored a submission's policy, which becomes the parent of the next submission."""

    time: str
    submit_index: int


@dataclass(frozen=True, slots=True)
class EpisodePlayed:
    """An episode was played."""

    split: Split
    checkpoint: str
    position: int
    """For train, the position in the submission; otherwise the index in the split."""
    episode: Episode
    submit_index: int | None = None
    """The submission; only for train."""


@dataclass(frozen=True, slots=True)
class EpisodeRepeated:
    """A simulator failed on a valid action, or the machine ended a process; the episode is retried, uncharged."""

    time: str
    split: Split
    position: int
    message: str


@dataclass(frozen=True, slots=True)
class SubmissionPublished:
    """A submission's feedback is in place."""

    time: str
    submit_index: int
    status: SubmissionStatus
    feedback_sha256: str
    """Hash of the names and contents of all files of the feedback (``records.feedback``)."""
    wall_time_s: float
    error: LoadError | None = None
    filmed: int = 0
    """How many of the requested films are in the feedback."""


@dataclass(frozen=True, slots=True)
class FinishAsked:
    """The agent ended the run with budget left."""

    time: str


@dataclass(frozen=True, slots=True)
class RunClosed:
    """The agent has ended, and no more submissions are accepted."""

    time: str
    reason: CloseReason


@dataclass(frozen=True, slots=True)
class CheckpointSelected:
    """The checkpoint with the best mean validation return was selected; the latest one among equals."""

    time: str
    submit_index: int
    checkpoint: str
    validation_mean: float | None
    """None in a record of the paper's release, which has it on another scale."""


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The run was scored, or had nothing to score."""

    time: str
    status: RunStatus
    score: float | None = None
    """The selected checkpoint's mean held-out return."""
    standard_error: float | None = None
    evaluation_sha256: str = ""
    """Hash of the names and contents of all files of hidden episodes; empty if none were played."""
    logs_sha256: Mapping[str, str] = field(default_factory=dict)
    """Hashes of the agent's transcript and of its log of model requests, by file name, if they exist."""


@dataclass(frozen=True, slots=True)
class PostHocPlayed:
    """A checkpoint that was not selected played the held-out cases. The only event that may follow ``RunFinished``."""

    time: str
    checkpoint: str
    sha256: str
    """Hash of its entry in ``post_hoc.json`` (``records.post_hoc``)."""


Event = (
    RunOpened
    | RunResumed
    | RunStopped
    | AgentStarted
    | AgentMetered
    | AgentEnded
    | SubmissionCharged
    | PolicyRestored
    | EpisodePlayed
    | EpisodeRepeated
    | SubmissionPublished
    | FinishAsked
    | RunClosed
    | CheckpointSelected
    | RunFinished
    | PostHocPlayed
)
