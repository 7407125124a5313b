"""The reference harness, the same for every model: a linear history and one tool, bash in the agent's workplace.

The conversation is held on this side, so that the key never enters the workplace. Nothing is compacted, and nothing of
a turn is remembered by the next run.
"""

from importlib.resources import files
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from evopolicygym.agents.base import About, Model
from evopolicygym.agents.kit.judge_client import JudgeClient, JudgeUnreachable, StopRequested
from evopolicygym.agents.kit.model_options import chosen_model
from evopolicygym.agents.kit.neutral_harness.bash_session import BashSession, SandboxTerminated
from evopolicygym.agents.kit.neutral_harness.chat_formats import CONVERSATIONS, UNREADABLE
from evopolicygym.core.agent import Agent, AgentConfig, AgentEnd, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import AgentError, RequestRefused
from evopolicygym.model_proxy.upstream import ModelUpstream

if TYPE_CHECKING:
    from evopolicygym.agents.kit.neutral_harness.model_client import ModelClient

ABOUT = About("the reference harness: any model with one tool, bash", Model.NEEDED, extra="agents", imports=("httpx2",))
MOST_WORDS_IN_A_ROW = 3
"""Answers without a call of the tool after which the turn is over."""


class NeutralAgent:
    """Has one model work in the workspace."""

    max_turns = 1
    starts_program = True

    def __init__(self, upstream: ModelUpstream, model: str, effort: str = "") -> None:
        self._upstream, self._model, self._effort = upstream, model, effort
        self.model_url = upstream.base_url

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Let the model work until the budget is spent, it has no more to do, or ``stop`` is set.

        Raises ``AgentError`` where there is no workplace, or where the model never answers.
        """
        from evopolicygym.agents.kit.neutral_harness.model_client import (
            AllowanceSpent,
            ConversationTooLong,
            ModelClient,
            ModelFailed,
        )

        with (
            ModelClient(self._upstream, self._model, workspace) as model,
            BashSession(workspace, endpoint, stop) as bash,
        ):
            work = _Conversation(model, self._effort, bash, JudgeClient(endpoint.address, stop), workspace.transcript)
            try:
                end, message = AgentEnd.FINISHED, work.run()
            except ConversationTooLong as error:
                end, message = AgentEnd.FINISHED, f"the conversation outgrew the model's context: {error}"
            except AllowanceSpent as error:
                end, message = AgentEnd.ALLOWANCE_SPENT, str(error)
            except StopRequested as error:
                end, message = AgentEnd.STOPPED, str(error)
            except ModelFailed as error:
                if not model.has_answered:
                    raise AgentError(f"The agent can't work: {error}") from error
                end, message = AgentEnd.CRASHED, str(error)
            except (SandboxTerminated, RequestRefused, JudgeUnreachable) as error:
                end, message = AgentEnd.CRASHED, str(error)
        return Turn(end, message, usage=model.usage().figures(), findings=bash.findings)


class _Conversation:
    """One turn's conversation."""

    def __init__(
        self, model: "ModelClient", effort: str, bash: BashSession, judge: JudgeClient, transcript: Path
    ) -> None:
        from evopolicygym.agents.kit.neutral_harness.model_client import Transcript

        self._model, self._bash, self._judge = model, bash, judge
        self._history = model.conversation(effort)
        self._transcript = Transcript(transcript)

    def run(self) -> str:
        """Go on until there is no more to do; return why."""
        self._say((files("evopolicygym.agents.kit") / "neutral_harness" / "prompt.md").read_text(encoding="utf-8"))
        words = 0
        while True:
            info = self._judge.info()
            if info.is_finalized or not info.remaining_budget:
                return "the budget is spent"
            if words == MOST_WORDS_IN_A_ROW:
                return f"the model stopped working with {info.remaining_budget} episodes left"
            if words:
                self._say(
                    f"{info.remaining_budget} of {info.episode_budget} episodes are left. Go on with the bash tool "
                    f"until they are spent."
                )
            words = 0 if self._step() else words + 1

    def _step(self) -> bool:
        """Take one answer and run its commands; return whether it had any."""
        answer = self._model.ask(self._history, self._bash.pause)
        self._transcript.write("assistant", text=answer.text, commands=[call.command for call in answer.calls])
        results = []
        for call in answer.calls:
            results.append(UNREADABLE if call.command is None else self._bash.run(call.command))
            self._transcript.write("tool", text=results[-1])
        self._history.add(answer, results)
        return bool(answer.calls)

    def _say(self, text: str) -> None:
        self._history.say(text)
        self._transcript.write("user", text=text)


def make(config: AgentConfig) -> Agent:
    """Return the agent that works with the model that a config names; raise ``UsageError`` or ``MissingExtra``."""
    upstream, model = chosen_model(config, CONVERSATIONS)
    return NeutralAgent(upstream, model, config.effort)
