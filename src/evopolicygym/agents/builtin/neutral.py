"""The agent ``neutral``, a reference harness that is the same for every model: a linear history and one tool, bash.

The conversation is held outside the sandbox, so the key never enters it. The history is never compacted, and no state
is shared between runs.
"""

from importlib.resources import files
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from evopolicygym.agents.base import About, Model
from evopolicygym.agents.kit.judge_client import JudgeClient, JudgeUnreachable, StopRequested
from evopolicygym.agents.kit.model_options import choose_model
from evopolicygym.agents.kit.neutral_harness.bash_session import BashSession, SandboxTerminated
from evopolicygym.agents.kit.neutral_harness.chat_formats import CONVERSATIONS, UNREADABLE
from evopolicygym.core.agent import Agent, AgentConfig, AgentEnd, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import AgentError, RequestRefused
from evopolicygym.model_proxy.upstream import ModelUpstream

if TYPE_CHECKING:
    from evopolicygym.agents.kit.neutral_harness.model_client import ModelClient

ABOUT = About("the reference harness: any model with one tool, bash", Model.NEEDED, extra="agents", imports=("httpx2",))
MOST_ANSWERS_WITHOUT_CALLS = 3
"""Consecutive answers without a tool call after which the turn ends."""


class NeutralAgent:
    """Lets one model work in the workspace."""

    max_turns = 1
    starts_program = True
    forgets = True

    def __init__(self, upstream: ModelUpstream, model: str, effort: str = "") -> None:
        self._upstream, self._model, self._effort = upstream, model, effort
        self.model_url = upstream.base_url

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Let the model work until the budget is spent, it stops calling the tool, or ``stop`` is set.

        Raises ``AgentError`` if the workplace can't be created or the model never answers.
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
            judge = JudgeClient(endpoint.address, stop)
            conversation = _Conversation(model, self._effort, bash, judge, workspace.transcript)
            try:
                end, message = AgentEnd.FINISHED, conversation.run()
            except ConversationTooLong as error:
                end, message = AgentEnd.FINISHED, f"the conversation exceeded the model's context: {error}"
            except AllowanceSpent as error:
                end, message = AgentEnd.ALLOWANCE_SPENT, str(error)
            except StopRequested as error:
                end, message = AgentEnd.STOPPED, str(error)
            except ModelFailed as error:
                if not model.has_answered:
                    raise AgentError(f"The agent can't work: {error}") from error
                end, message = error.end, str(error)
            except SandboxTerminated as error:
                end, message = error.end, str(error)
            except (RequestRefused, JudgeUnreachable) as error:
                end, message = AgentEnd.CRASHED, str(error)
        return Turn(end, message, usage=model.usage().figures(), findings=bash.findings)


class _Conversation:
    """The conversation of a turn."""

    def __init__(
        self, model: "ModelClient", effort: str, bash: BashSession, judge: JudgeClient, transcript: Path
    ) -> None:
        from evopolicygym.agents.kit.neutral_harness.model_client import Transcript

        self._model, self._bash, self._judge = model, bash, judge
        self._history = model.conversation(effort)
        self._transcript = Transcript(transcript)

    def run(self) -> str:
        """Converse until the budget is spent or the model stops; return the reason."""
        self._say((files("evopolicygym.agents.kit") / "neutral_harness" / "prompt.md").read_text(encoding="utf-8"))
        without_calls = 0
        while True:
            info = self._judge.info()
            if info.is_finalized or not info.remaining_budget:
                return "the budget is spent"
            if without_calls == MOST_ANSWERS_WITHOUT_CALLS:
                return f"the model stopped working with {info.remaining_budget} episodes left"
            if without_calls:
                self._say(
                    f"{info.remaining_budget} of {info.episode_budget} episodes are left. Continue with the bash tool "
                    f"until they are spent."
                )
            without_calls = 0 if self._step() else without_calls + 1

    def _step(self) -> bool:
        """Get an answer and run its commands; return whether it had any."""
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
    """Return the agent with the model in a config; raise ``UsageError`` or ``MissingExtra``."""
    upstream, model = choose_model(config, CONVERSATIONS)
    return NeutralAgent(upstream, model, config.effort)
