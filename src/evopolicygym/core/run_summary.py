"""The summary of a run, which tables, pages and exports show. ``records/`` derives it from the event log."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from evopolicygym.core.agent import AgentConfig, AgentEnd, PriceSnapshot, TokenCounts, limit_reached, used_of
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.event import RELEASE_MARK, CloseReason, RunStatus, StopReason
from evopolicygym.core.run import Stage
from evopolicygym.core.score import Estimate, estimate
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.task import Task

ENDED_BY: Mapping[CloseReason, str] = {
    CloseReason.BUDGET_SPENT: "budget",
    CloseReason.SUBMISSIONS_SPENT: "submissions",
    CloseReason.FINISH_ASKED: "finish",
}
"""What ended a run's submissions by why it was closed, where that says all."""
ENDED_BY_TURN: Mapping[str, str] = {
    AgentEnd.CRASHED: "crash",
    AgentEnd.HUNG: "hang",
    AgentEnd.CONTEXT_EXCEEDED: "context",
}
"""The same by how the agent's last turn ended; ``agent`` for all others, in which it ended by itself."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Versions that a run's results depend on."""

    versions: Mapping[str, str]
    """Versions of Python and packages, by name."""
    spec_sha256: str
    simulator_code: Mapping[str, str] = field(default_factory=dict)
    """The modules that create the environment, each with a hash of its files; may be empty."""


@dataclass(frozen=True, slots=True)
class IsolationSummary:
    """The sandboxes of policies and of the agent."""

    level: str
    findings: Mapping[str, str] = field(default_factory=dict)
    agent: Mapping[str, str] | None = None
    """The agent's sandbox in the last turn that recorded one; None if none did."""


@dataclass(frozen=True, slots=True)
class UsageSummary:
    """Usage of an agent's model, summed over turns."""

    amounts: Mapping[str, float | None]
    """Amounts by the names that the model proxy, or the agent's tool, reports; not empty."""

    @property
    def requests(self) -> float | None:
        """Forwarded requests of all kinds."""
        return self.amounts.get("requests")

    @property
    def unknown_generations(self) -> float | None:
        """Generations whose usage is unknown and missing in the sums."""
        return self.amounts.get("unknown")

    @property
    def input_tokens(self) -> float | None:
        """All input, cached or not."""
        return self.amounts.get("input")

    @property
    def cached_input_tokens(self) -> float | None:
        """Input read from a cache."""
        return self.amounts.get("cached_input")

    @property
    def output_tokens(self) -> float | None:
        """All output, including reasoning."""
        return self.amounts.get("output")

    @property
    def reasoning_tokens(self) -> float | None:
        """Reasoning output."""
        return self.amounts.get("reasoning")

    @property
    def seconds(self) -> float | None:
        """Seconds of waiting for the model."""
        return self.amounts.get("seconds")

    @property
    def cost(self) -> float | None:
        """US dollars, a lower bound if there are unknown generations; None without a price."""
        return self.amounts.get("cost")

    @property
    def tokens(self) -> float | None:
        """Input and output."""
        return all_tokens(self.input_tokens, self.output_tokens)

    @property
    def token_counts(self) -> TokenCounts | None:
        """Tokens by kind; None if input or output is unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        cached, written = self.cached_input_tokens or 0, self.amounts.get("cache_write") or 0
        return TokenCounts(self.input_tokens, self.output_tokens, cached, written)

    @property
    def is_lower_bound(self) -> bool:
        """Whether tokens and cost are lower bounds: some generation's usage is unknown."""
        return bool(self.unknown_generations)


def all_tokens(input_tokens: float | None, output_tokens: float | None) -> float | None:
    """Return the sum; None if either is unknown."""
    return None if input_tokens is None or output_tokens is None else input_tokens + output_tokens


@dataclass(frozen=True, slots=True)
class Stop:
    """A clean stop before the end of the run."""

    at: str
    reason: StopReason = StopReason.INTERRUPTED
    message: str = ""


@dataclass(frozen=True, slots=True)
class ProgramChange:
    """A resumption with a changed program of the agent, which the user allowed."""

    at: str
    program_sha256: str


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """An ended turn of the agent."""

    started_at: str
    ended_at: str
    seconds: float
    end: str
    message: str


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of a run, ISO 8601 with an offset."""

    opened_at: str
    finished_at: str | None = None
    resumed_at: tuple[str, ...] = ()
    stops: tuple[Stop, ...] = ()
    agent_turns: tuple[AgentTurn, ...] = ()
    train_seconds: float = 0.0
    """Wall time of train episodes."""

    @property
    def opened(self) -> datetime:
        """The time of opening."""
        return datetime.fromisoformat(self.opened_at)

    @property
    def finished(self) -> datetime | None:
        """The time of the end; None before it."""
        return datetime.fromisoformat(self.finished_at) if self.finished_at else None

    @property
    def wall_seconds(self) -> float:
        """Seconds that the run was played; intervals that a crash ended are not counted, as their end is unknown."""
        marks = [(datetime.fromisoformat(at), True) for at in (self.opened_at, *self.resumed_at)]
        marks += [(datetime.fromisoformat(stop.at), False) for stop in self.stops]
        marks += [(self.finished, False)] if self.finished else []
        seconds, began = 0.0, None
        for at, begins in sorted(marks, key=lambda mark: mark[0]):
            if not begins and began is not None:
                seconds += (at - began).total_seconds()
            began = at if begins else None
        return seconds


@dataclass(frozen=True, slots=True)
class BudgetSummary:
    """The episode budget and what was spent."""

    episodes: int
    """The whole budget."""
    spent: int
    submissions: int


@dataclass(frozen=True, slots=True)
class SubmissionSummary:
    """A submission in short."""

    submit_index: int
    status: SubmissionStatus
    checkpoint: str
    n_episodes: int
    """The number of charged episodes."""
    failed_episodes: int = 0
    train_mean: float | None = None
    """None if no episode was played."""
    validation_mean: float | None = None
    """None unless its checkpoint has played all validation cases."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The result of a run; empty before its end."""

    status: RunStatus | None = None
    closed: CloseReason | None = None
    selected_submission: int | None = None
    validation_mean: float | None = None
    """The selected checkpoint's."""
    score: float | None = None
    """As it was recorded."""
    standard_error: float | None = None
    """As it was recorded."""
    held_out_returns: tuple[float, ...] | None = None
    """In the split's order; None until all are played."""
    success_rate: float | None = None
    """Share of held-out episodes in which the policy succeeded; None without a success rule."""
    held_out_failures: int = 0
    """The number of held-out episodes in which the policy failed."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The contents of ``run.json``."""

    protocol_version: str
    run_id: str
    stage: Stage
    task: Task
    agent: AgentConfig
    seed: int | None
    """None if unknown."""
    split: SplitSource
    experiment: str
    """The experiment's id."""
    commitment: str
    fingerprint: Fingerprint
    isolation: IsolationSummary
    timing: Timing
    budget: BudgetSummary
    outcome: RunOutcome
    submissions: tuple[SubmissionSummary, ...] = ()
    usage: UsageSummary | None = None
    """Usage of the model proxy; None without one."""
    price: PriceSnapshot | None = None
    tool_usage: UsageSummary | None = None
    """Usage as reported by the agent's own tool; None if it reports none."""
    program_changes: tuple[ProgramChange, ...] = ()
    """Empty if the agent's program never changed."""
    revealed: bool = False
    """Whether its cases were published before it was opened."""
    evopolicygym_version: str = ""
    """The version of this package that opened it; empty in older records."""
    agent_version: str = ""
    """The version of the agent's tool or library, in its words; empty where it is unknown."""
    model_details: Mapping[str, str] = field(default_factory=dict)
    """As in ``RunOpened``."""
    nonce: str = ""
    """The nonce of a board, from which its cases are derived too; empty without one."""
    readable: str = ""
    """``group`` if the group of its directory may read it; else empty."""
    repeats: bool | None = None
    """As in ``RunOpened``."""
    cases_differ: bool | None = None
    """As in ``RunOpened``."""

    @property
    def is_finished(self) -> bool:
        """Whether the run has ended, scored or not."""
        return self.stage is Stage.FINISHED and self.outcome.status is not None

    @property
    def entry(self) -> str:
        """The name of the run's entry in tables."""
        return self.agent.entry if self.task.environment.is_known else f"{self.agent.entry} {RELEASE_MARK}"

    @property
    def agent_error(self) -> str | None:
        """How the agent failed in its last turn, in one line; None unless it crashed or hung."""
        last = self.timing.agent_turns[-1] if self.timing.agent_turns else None
        return f"{last.end}: {last.message}" if last and last.end in {AgentEnd.CRASHED, AgentEnd.HUNG} else None

    @property
    def ended_by(self) -> str:
        """What ended the run's submissions, as ``ENDED_BY`` has it; empty while they are taken, and where unknown.

        Of a limit its option, such as ``max_cost``, or ``limit`` where its record doesn't name it.
        """
        last = self.timing.agent_turns[-1] if self.timing.agent_turns else None
        match self.outcome.closed:
            case None:
                return ""
            case CloseReason.ALLOWANCE_SPENT:
                options = self.agent.allowance.options
                return limit_reached(self.limit_message) or (options[0] if len(options) == 1 else "limit")
            case CloseReason.AGENT_ENDED:
                return ENDED_BY_TURN.get(last.end, "agent") if last else "agent"
            case reason:
                return ENDED_BY[reason]

    @property
    def limit_message(self) -> str:
        """Which limit of the agent was reached, in words, as its last turn or else its usage says; may be empty."""
        turns = self.timing.agent_turns
        if turns and turns[-1].end == AgentEnd.ALLOWANCE_SPENT and turns[-1].message:
            return turns[-1].message
        usage = {name: amount or 0.0 for name, amount in self.usage.amounts.items()} if self.usage else {}
        return self.agent.allowance.spent(used_of(usage, sum(turn.seconds for turn in turns), len(turns)))

    @property
    def is_early(self) -> bool:
        """Whether its submissions ended with episodes unspent."""
        return bool(self.ended_by) and self.budget.spent < self.budget.episodes

    @property
    def tokens(self) -> float | None:
        """Input and output, from the model proxy or else from the agent's tool; None if unknown."""
        usage = self.usage_with_tokens
        return usage.tokens if usage else None

    @property
    def cost(self) -> float | None:
        """US dollars, from the same sources."""
        return next((usage.cost for usage in self._usages if usage.cost is not None), None)

    @property
    def cost_is_lower_bound(self) -> bool:
        """Whether ``cost`` and ``tokens`` miss generations whose usage is unknown."""
        known = next((usage for usage in self._usages if usage.cost is not None), self.usage_with_tokens)
        return bool(known and known.is_lower_bound)

    @property
    def usage_with_tokens(self) -> UsageSummary | None:
        """The usage by the model proxy, or else by the agent's tool, that tells tokens; None without one."""
        return next((usage for usage in self._usages if usage.tokens is not None), None)

    @property
    def held_out(self) -> Estimate | None:
        """Mean of the held-out returns with its standard error; None without a score."""
        return estimate(self.outcome.held_out_returns) if self.outcome.held_out_returns else None

    @property
    def first_reached(self) -> int | None:
        """The earliest submission with the selected checkpoint; None before the selection."""
        selected = self.outcome.selected_submission
        checkpoint = next((entry.checkpoint for entry in self.submissions if entry.submit_index == selected), None)
        return next((entry.submit_index for entry in self.candidates if entry.checkpoint == checkpoint), None)

    @property
    def candidates(self) -> Iterator[SubmissionSummary]:
        """The submissions whose checkpoints may be selected."""
        return (submission for submission in self.submissions if submission.status is SubmissionStatus.OK)

    @property
    def _usages(self) -> tuple[UsageSummary, ...]:
        return tuple(usage for usage in (self.usage, self.tool_usage) if usage is not None)
