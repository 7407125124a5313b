"""What can happen in a run. Each is one line of its journal; the run's state is their fold (``core/run.py``).

Times are ISO 8601 in UTC. Nothing here holds a seed or a path of the host.
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
"""The schema of records, in the event log's first line, ``run.json`` and ``post_hoc.json``. No other schema is read."""
SCHEMA_VERSION = "1"
"""The schema of ``summary.json``, ``GET /info``, films and suites."""


class CloseReason(StrEnum):
    """Why no more submissions are taken."""

    BUDGET_SPENT = "budget_spent"
    SUBMISSIONS_SPENT = "submissions_spent"
    """As many submissions were made as the run takes, with budget left."""
    FINISH_ASKED = "finish_asked"
    """The agent asked to finish, and the run allows it."""
    AGENT_ENDED = "agent_ended"
    """The agent ended all its turns with budget left."""
    ALLOWANCE_SPENT = "allowance_spent"
    """The agent used what its user lets it use of money, tokens, time or turns, with budget left."""


class RunStatus(StrEnum):
    """How a run ended."""

    SCORED = "scored"
    NO_OK_SUBMIT = "no_ok_submit"
    """There was no candidate to select."""


class StopReason(StrEnum):
    """Why a run was stopped before its end; it can be resumed."""

    INTERRUPTED = "interrupted"
    """By a signal: whoever started it wanted it so, or the machine went down."""
    ENVIRONMENT = "env_error"
    """A simulator failed on a valid action as often as a case is played."""
    SANDBOX = "sandbox_error"
    AGENT = "agent_error"
    """The agent could not be started."""
    STORAGE = "not_stored"
    """Something could not be written, such as on a full disk."""
    ERROR = "error"
    """Anything else."""


@dataclass(frozen=True, slots=True)
class RunOpened:
    """The first line: what is played, under which versions, on which cases."""

    time: str
    run_id: str
    protocol_version: str
    task: Task
    agent: AgentConfig
    seed: int
    split: SplitSource
    experiment: str
    """Names the secret in the owner's state directory."""
    commitment: str
    """Salted hash of the cases (``core.cases.commitment``)."""
    versions: Mapping[str, str]
    spec_sha256: str
    isolation: str
    findings: Mapping[str, str] = field(default_factory=dict)
    observation_schema: Mapping[str, Any] = field(default_factory=dict)
    action_schema: Mapping[str, Any] = field(default_factory=dict)
    price: PriceSnapshot | None = None
    """What the agent's model costs; None where that isn't known, or where it asks none."""
    simulator_code: Mapping[str, str] = field(default_factory=dict)
    """The modules that make the environment, each with a hash of its files (``core.rollout``); empty where
    gymnasium alone makes it, and where they were not hashed."""
    revealed: bool = False
    """Whether the experiment's secret had been published, so that its cases were hidden no more."""
    interface: Mapping[str, Any] = field(default_factory=dict)
    """The interface through which the environment is played (``core/interface.py``); empty for the standard one."""
    schema_version: int = SCHEMA

    @property
    def shown_environment(self) -> EnvironmentSpec:
        """The environment as its agent is shown it."""
        return shown_spec(self.task.environment, self.interface)


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A process resumed the run."""

    time: str
    program_sha256: str = ""
    """Of the agent's program, where it isn't the one of before, as its user allowed; empty where it is the same."""


@dataclass(frozen=True, slots=True)
class RunStopped:
    """The run was stopped in good order; a process that was killed leaves none."""

    time: str
    reason: StopReason
    message: str = ""
    """What failed, in a line; empty for an interruption."""


@dataclass(frozen=True, slots=True)
class AgentStarted:
    """A turn of the agent began."""

    time: str
    turn: int


@dataclass(frozen=True, slots=True)
class AgentMetered:
    """What the turn that is being played has used so far, for a turn that is never ended.

    Noted after each request to its model, and now and then.
    """

    time: str
    turn: int
    seconds: float
    """Since the turn began, in this process."""
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
    """What was found to keep the agent in, by name; empty where nothing did."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """What went through its model proxy in this turn, by name; empty where it had none."""
    tool_usage: Mapping[str, float] = field(default_factory=dict)
    """What the agent's own tool says that it used in this turn; empty where it says nothing."""
    seconds: float = 0.0
    """Wall time of the turn."""


@dataclass(frozen=True, slots=True)
class SubmissionCharged:
    """The budget is charged. On disk before anything of the agent's runs."""

    time: str
    submit_index: int
    checkpoint: str
    """SHA-256 that names the checkpoint."""
    env_instances: tuple[int, ...]
    key: str = ""
    """What the client named the request, to be able to ask again; empty where it didn't."""
    films: tuple[int, ...] = ()
    """Places in ``env_instances`` of the episodes that the agent asked to have filmed."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Values that the agent gave parameters of its policy with the request, by name; the checkpoint holds them."""
    parent: int | None = None
    """The submission that the agent says its policy was made from, ``STARTER`` for the starter policy; None where it
    says nothing."""
    hypothesis: str = ""
    """What the agent says it expects of it, in its own words; empty where it says nothing."""


@dataclass(frozen=True, slots=True)
class PolicyRestored:
    """The agent had its workspace hold a submission's policy again: what comes next was made from it."""

    time: str
    submit_index: int


@dataclass(frozen=True, slots=True)
class EpisodePlayed:
    """One case was played to its end."""

    split: Split
    checkpoint: str
    position: int
    """Its place in the rollout: for train, in the submission; else the index in the split."""
    episode: Episode
    submit_index: int | None = None
    """The submission, for train."""


@dataclass(frozen=True, slots=True)
class EpisodeRepeated:
    """A simulator failed on a valid action, and the case is played again, uncharged."""

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
    """Over the names and contents of all its files (``records.feedback``)."""
    wall_time_s: float
    error: LoadError | None = None
    filmed: int = 0
    """How many of the films asked for are in the feedback."""


@dataclass(frozen=True, slots=True)
class FinishAsked:
    """The agent wants no more, and the run allows it: nothing more is charged."""

    time: str


@dataclass(frozen=True, slots=True)
class RunClosed:
    """No more submissions are taken; the agent is gone."""

    time: str
    reason: CloseReason


@dataclass(frozen=True, slots=True)
class CheckpointSelected:
    """The best mean validation return, the latest of equals."""

    time: str
    submit_index: int
    checkpoint: str
    validation_mean: float


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The last line of what is scored."""

    time: str
    status: RunStatus
    score: float | None = None
    """The selected checkpoint's mean held-out return."""
    standard_error: float | None = None
    evaluation_sha256: str = ""
    """Over the names and contents of all files of the hidden episodes; empty where none were played."""
    logs_sha256: Mapping[str, str] = field(default_factory=dict)
    """Of the agent's transcript and of the log of its model requests, by name: those that there are."""


@dataclass(frozen=True, slots=True)
class PostHocPlayed:
    """A checkpoint that was not selected played the held-out cases after the end; the only line that may follow it."""

    time: str
    checkpoint: str
    sha256: str
    """Over what ``post_hoc.json`` holds of it (``records.post_hoc``)."""


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
