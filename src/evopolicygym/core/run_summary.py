"""A run in short: what tables, pages and exports say of it, each number by one rule.

How a summary is made of a journal, and how it is spelled in ``run.json``, is not here but in ``records/``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from evopolicygym.core.agent import AgentConfig, AgentEnd, PriceSnapshot
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.event import CloseReason, RunStatus, StopReason
from evopolicygym.core.run import Stage
from evopolicygym.core.score import Estimate, estimate
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.task import Task


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a run's numbers depend on."""

    versions: Mapping[str, str]
    """Of Python and of packages, by name."""
    spec_sha256: str
    simulator_code: Mapping[str, str] = field(default_factory=dict)
    """The modules that make the environment, each with a hash of its files; empty where the record doesn't say."""


@dataclass(frozen=True, slots=True)
class IsolationSummary:
    """What policies and the agent were confined by."""

    level: str
    findings: Mapping[str, str] = field(default_factory=dict)
    agent: Mapping[str, str] | None = None
    """What confined the agent in its last turn that recorded any; None where none did."""


@dataclass(frozen=True, slots=True)
class UsageSummary:
    """What an agent's model used, summed over the agent's turns."""

    amounts: Mapping[str, float | None]
    """By the names that the model's proxy, or the agent's tool, has for them; at least one."""

    @property
    def requests(self) -> float | None:
        """Requests of every kind that were passed on."""
        return self.amounts.get("requests")

    @property
    def unknown_generations(self) -> float | None:
        """Generations whose usage is not known: it is missing in the sums."""
        return self.amounts.get("unknown")

    @property
    def input_tokens(self) -> float | None:
        """All that went into the model, cached or not."""
        return self.amounts.get("input")

    @property
    def cached_input_tokens(self) -> float | None:
        """The part of the input that was read from a cache."""
        return self.amounts.get("cached_input")

    @property
    def output_tokens(self) -> float | None:
        """All that came out, reasoning included."""
        return self.amounts.get("output")

    @property
    def reasoning_tokens(self) -> float | None:
        """The part of the output that was reasoning."""
        return self.amounts.get("reasoning")

    @property
    def seconds(self) -> float | None:
        """Spent waiting for the model."""
        return self.amounts.get("seconds")

    @property
    def cost(self) -> float | None:
        """US dollars, a lower bound where any generation is unknown; None where no price is known."""
        return self.amounts.get("cost")

    @property
    def tokens(self) -> float | None:
        """Input and output together."""
        return all_tokens(self.input_tokens, self.output_tokens)


def all_tokens(input_tokens: float | None, output_tokens: float | None) -> float | None:
    """Return both together; None where either is unknown, as nothing unknown is taken for 0."""
    return None if input_tokens is None or output_tokens is None else input_tokens + output_tokens


@dataclass(frozen=True, slots=True)
class Stop:
    """The run was stopped in good order before its end."""

    at: str
    reason: StopReason = StopReason.INTERRUPTED
    message: str = ""


@dataclass(frozen=True, slots=True)
class ProgramChange:
    """The run was resumed with another program of the agent's than it had before, as its user allowed."""

    at: str
    program_sha256: str


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """One turn of the agent that has ended."""

    started_at: str
    ended_at: str
    seconds: float
    end: str
    message: str


@dataclass(frozen=True, slots=True)
class Timing:
    """When a run went on. Times are ISO 8601 with an offset, as the journal has them."""

    opened_at: str
    finished_at: str | None = None
    resumed_at: tuple[str, ...] = ()
    stops: tuple[Stop, ...] = ()
    agent_turns: tuple[AgentTurn, ...] = ()
    train_seconds: float = 0.0
    """Wall time of the submissions' train episodes."""

    @property
    def opened(self) -> datetime:
        """When it was opened."""
        return datetime.fromisoformat(self.opened_at)

    @property
    def finished(self) -> datetime | None:
        """When it ended; None where it has not."""
        return datetime.fromisoformat(self.finished_at) if self.finished_at else None

    @property
    def wall_seconds(self) -> float:
        """Seconds between beginnings and ends; a piece that a crash ended has no known end and adds none."""
        marks = [(datetime.fromisoformat(at), True) for at in (self.opened_at, *self.resumed_at)]
        marks += [(datetime.fromisoformat(one.at), False) for one in self.stops]
        marks += [(self.finished, False)] if self.finished else []
        seconds, began = 0.0, None
        for at, begins in sorted(marks, key=lambda mark: mark[0]):
            if not begins and began is not None:
                seconds += (at - began).total_seconds()
            began = at if begins else None
        return seconds


@dataclass(frozen=True, slots=True)
class BudgetSummary:
    """Where the episode budget stands."""

    episodes: int
    """The whole of it."""
    spent: int
    submissions: int


@dataclass(frozen=True, slots=True)
class SubmissionSummary:
    """One submission."""

    submit_index: int
    status: SubmissionStatus
    checkpoint: str
    n_episodes: int
    """Charged."""
    failed_episodes: int = 0
    train_mean: float | None = None
    """None where no episode was played."""
    validation_mean: float | None = None
    """None where its checkpoint has not played all validation cases."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended, as far as it has."""

    status: RunStatus | None = None
    closed: CloseReason | None = None
    selected_submission: int | None = None
    validation_mean: float | None = None
    """Of the selected checkpoint."""
    score: float | None = None
    """As it was recorded."""
    standard_error: float | None = None
    """As it was recorded."""
    held_out_returns: tuple[float, ...] | None = None
    """In the split's order; None while any is missing."""
    success_rate: float | None = None
    """Share of held-out episodes in which the policy succeeded; None where there is no success."""
    held_out_failures: int = 0
    """Held-out episodes in which the policy failed."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """All that ``run.json`` holds."""

    protocol_version: str
    run_id: str
    stage: Stage
    task: Task
    agent: AgentConfig
    seed: int
    split: SplitSource
    experiment: str
    """Its identity."""
    commitment: str
    fingerprint: Fingerprint
    isolation: IsolationSummary
    timing: Timing
    budget: BudgetSummary
    outcome: RunOutcome
    submissions: tuple[SubmissionSummary, ...] = ()
    usage: UsageSummary | None = None
    """What went through the model's proxy; None where there was no such proxy."""
    price: PriceSnapshot | None = None
    tool_usage: UsageSummary | None = None
    """What the agent's own tool says that it used; None where it says nothing."""
    program_changes: tuple[ProgramChange, ...] = ()
    """Empty where the agent's program was the same throughout."""
    revealed: bool = False
    """Whether its cases were revealed before it began."""

    @property
    def is_finished(self) -> bool:
        """Whether the run has ended, scored or not."""
        return self.stage is Stage.FINISHED and self.outcome.status is not None

    @property
    def entry(self) -> str:
        """What the run goes by in tables."""
        return self.agent.entry

    @property
    def agent_error(self) -> str | None:
        """How the agent failed in its last turn, in a line; None where it did not crash and was not ended as hung."""
        last = self.timing.agent_turns[-1] if self.timing.agent_turns else None
        return f"{last.end}: {last.message}" if last and last.end in {AgentEnd.CRASHED, AgentEnd.HUNG} else None

    @property
    def tokens(self) -> float | None:
        """Input and output together: as the model's proxy counted, else as the agent's tool says; None of neither."""
        return next((one.tokens for one in self._usages if one.tokens is not None), None)

    @property
    def cost(self) -> float | None:
        """US dollars, by the first of the same two that knows them."""
        return next((one.cost for one in self._usages if one.cost is not None), None)

    @property
    def held_out(self) -> Estimate | None:
        """Mean of the held-out returns with its standard error; None where nothing was scored."""
        return estimate(self.outcome.held_out_returns) if self.outcome.held_out_returns else None

    @property
    def first_reached(self) -> int | None:
        """The earliest submission with the selected checkpoint; None until one is selected."""
        selected = self.outcome.selected_submission
        checkpoint = next((found.checkpoint for found in self.submissions if found.submit_index == selected), None)
        return next((found.submit_index for found in self._candidates if found.checkpoint == checkpoint), None)

    def row(self) -> dict[str, Any]:
        """Return the run as one flat row: what results, exports and pages have of it, by the name of its column.

        Names are those of the exported table, where it has the column. Texts and mappings that a run doesn't have are
        empty, numbers that are not known are None, and times are texts as the event log has them.
        """
        task, agent, outcome, timing = self.task, self.agent, self.outcome, self.timing
        environment, budget, usage = task.environment, task.budget, self.usage or UsageSummary({})
        return {
            "run": self.run_id,
            "task": environment.name,
            "environment_id": environment.id,
            "family": environment.family,
            "kind": environment.kind.value,
            "agent": agent.label or agent.name,
            "harness": agent.name,
            "entry": self.entry,
            "label": agent.label,
            "program_sha256": agent.program_sha256,
            "program_changes": tuple(change.program_sha256 for change in self.program_changes),
            "model": agent.model,
            "effort": agent.effort,
            "command": agent.command,
            "allowance": agent.allowance,
            "options": agent.options,
            "seed": self.seed,
            "split_source": self.split.value,
            "experiment_id": self.experiment,
            "revealed": self.revealed,
            "commitment": self.commitment,
            "protocol_version": self.protocol_version,
            "versions": self.fingerprint.versions,
            "simulator_code": self.fingerprint.simulator_code,
            "spec_sha256": self.fingerprint.spec_sha256,
            "isolation": self.isolation.level,
            "stage": self.stage.value,
            "status": outcome.status.value if outcome.status else None,
            "closed": outcome.closed.value if outcome.closed else None,
            "score": outcome.score,
            "standard_error": self.held_out.standard_error if self.held_out else None,
            "success_rate": outcome.success_rate,
            "held_out_returns": outcome.held_out_returns or (),
            "validation_mean": outcome.validation_mean,
            "selected_submission": outcome.selected_submission,
            "first_reached_submission": self.first_reached,
            "budget": self.budget.episodes,
            "spent": self.budget.spent,
            "submissions": self.budget.submissions,
            "checkpoints": tuple(submission.checkpoint for submission in self.submissions),
            "distinct_checkpoints": len({candidate.checkpoint for candidate in self._candidates}),
            "validation_cases": task.validation_cases,
            "held_out_cases": task.held_out_cases,
            "train_cases": task.train_cases,
            "random_anchor": environment.random_anchor,
            "idle_anchor": environment.idle_anchor,
            "text": task.text.value,
            "feedback": task.feedback.value,
            "memory": task.memory.value,
            "finish_allowed": task.finish_allowed,
            "min_episodes": budget.min_per_submission,
            "max_episodes": budget.max_per_submission,
            "max_submissions": budget.max_submissions,
            "films": task.films,
            "policy_packages": " ".join(task.policy_packages),
            "policy_limits": task.limits.changed,
            "model_requests": _count(usage.requests),
            "unknown_generations": _count(usage.unknown_generations),
            "input_tokens": _count(usage.input_tokens),
            "cached_input_tokens": _count(usage.cached_input_tokens),
            "output_tokens": _count(usage.output_tokens),
            "reasoning_tokens": _count(usage.reasoning_tokens),
            "model_seconds": usage.seconds,
            "cost": usage.cost,
            "tool_usage": self.tool_usage.amounts if self.tool_usage else {},
            "tokens": self.tokens,
            "known_cost": self.cost,
            "opened_at": timing.opened_at,
            "finished_at": timing.finished_at,
            "turns": len(timing.agent_turns),
            "resumes": len(timing.resumed_at),
            "train_seconds": float(timing.train_seconds),
            "wall_seconds": timing.wall_seconds,
            "turn_seconds": sum(turn.seconds for turn in timing.agent_turns),
        }

    @property
    def _candidates(self) -> Iterator[SubmissionSummary]:
        return (submission for submission in self.submissions if submission.status is SubmissionStatus.OK)

    @property
    def _usages(self) -> tuple[UsageSummary, ...]:
        return tuple(one for one in (self.usage, self.tool_usage) if one is not None)


def _count(amount: float | None) -> int | None:
    return None if amount is None else int(amount)
