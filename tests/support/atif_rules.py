"""The rules of ATIF 1.8 (RFC 0001 of Harbor), as a check of our own: Harbor itself needs a newer Python than ours."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


def _is_iso(text: str) -> str:
    datetime.fromisoformat(text)
    return text


Count = Annotated[int, Field(ge=0)]
Extra = dict[str, Any]


class Rules(BaseModel):
    """What has no other fields than those that are named."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AgentRules(Rules):
    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[Extra] | None = None
    extra: Extra | None = None


class CallRules(Rules):
    tool_call_id: str
    function_name: str
    arguments: Extra
    extra: Extra | None = None


class ResultRules(Rules):
    source_call_id: str | None = None
    content: str | None = None
    extra: Extra | None = None


class ObservationRules(Rules):
    results: list[ResultRules]


class MetricsRules(Rules):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    cached_tokens: Count | None = None
    cost_usd: float | None = None


class StepRules(Rules):
    step_id: int
    source: Literal["system", "user", "agent"]
    message: str
    timestamp: Annotated[str, AfterValidator(_is_iso)] | None = None
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallRules] | None = None
    observation: ObservationRules | None = None
    metrics: MetricsRules | None = None

    @model_validator(mode="after")
    def _only_agents_act(self) -> "StepRules":
        acts = [self.model_name, self.reasoning_content, self.tool_calls, self.metrics]
        assert self.source == "agent" or acts == [None] * 4, "what an agent alone does stands at another's step"
        return self

    @model_validator(mode="after")
    def _results_are_of_calls_here(self) -> "StepRules":
        calls = {one.tool_call_id for one in self.tool_calls or ()}
        answered = {one.source_call_id for one in self.observation.results} if self.observation else set()
        assert answered - {None} <= calls, "a result names a call that its step doesn't have"
        return self


class FinalRules(Rules):
    total_prompt_tokens: Count | None = None
    total_completion_tokens: Count | None = None
    total_cached_tokens: Count | None = None
    total_cost_usd: float | None = None
    total_steps: Count | None = None


class TrajectoryRules(Rules):
    """A whole trajectory, as far as we write one: text alone, and no sub-agents of its own."""

    schema_version: Literal["ATIF-v1.8"]
    session_id: str
    trajectory_id: str
    agent: AgentRules
    steps: Annotated[list[StepRules], Field(min_length=1)]
    final_metrics: FinalRules | None = None
    notes: str | None = None
    extra: Extra | None = None

    @model_validator(mode="after")
    def _steps_are_numbered(self) -> "TrajectoryRules":
        assert [one.step_id for one in self.steps] == list(range(1, len(self.steps) + 1))
        return self
