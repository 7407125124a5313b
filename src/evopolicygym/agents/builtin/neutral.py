"""The reference harness, the same for every model: a linear history and one tool, bash in the agent's workplace.

The conversation is held on this side, so that the key never enters the workplace. Nothing is compacted, and nothing of
a turn is remembered by the next run. Its parts are not here but in ``neutral_harness/``.
"""

from importlib.resources import files
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from evopolicygym.agents.kit.about import About, Model
from evopolicygym.agents.kit.judge_client import JudgeClient, JudgeUnreachable, StopRequested
from evopolicygym.agents.kit.neutral_harness.choice import chosen_model
from evopolicygym.agents.kit.neutral_harness.hands import Hands, WorkEnded
from evopolicygym.agents.kit.neutral_harness.transcript import Transcript
from evopolicygym.agents.kit.neutral_harness.wires import CONVERSATIONS, UNREADABLE, Conversation
from evopolicygym.core.agent import Agent, AgentConfig, AgentEnd, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import AgentError, RequestRefused
from evopolicygym.model_proxy.formats import ModelRequestRefused
from evopolicygym.model_proxy.ledger import Ledger, ModelLog
from evopolicygym.model_proxy.upstream import ModelUpstream

if TYPE_CHECKING:
    from evopolicygym.agents.kit.neutral_harness.provider import Provider

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
        from evopolicygym.agents.kit.neutral_harness.provider import ConversationTooLong, ModelFailed, Provider

        ledger = Ledger(self._upstream.within(workspace), workspace.report)
        provider = Provider(self._upstream, self._model, ledger, ModelLog(workspace.model_log))
        conversation: Conversation = CONVERSATIONS[self._upstream.wire](self._effort)
        with Hands(workspace, endpoint, stop) as hands:
            talk = _Talk(conversation, provider, hands, JudgeClient(endpoint.address, stop), workspace.transcript)
            try:
                end, message = AgentEnd.FINISHED, talk.hold()
            except ConversationTooLong as error:
                end, message = AgentEnd.FINISHED, f"the conversation outgrew the model's context: {error}"
            except ModelRequestRefused as error:
                end, message = AgentEnd.ALLOWANCE_SPENT, str(error)
            except StopRequested as error:
                end, message = AgentEnd.STOPPED, str(error)
            except ModelFailed as error:
                usage = ledger.usage()
                if usage.requests == usage.failed:
                    raise AgentError(f"The agent can't work: {error}") from error
                end, message = AgentEnd.CRASHED, str(error)
            except (WorkEnded, RequestRefused, JudgeUnreachable) as error:
                end, message = AgentEnd.CRASHED, str(error)
        return Turn(end, message, usage=ledger.usage().figures(), findings=hands.findings)


class _Talk:
    """One turn's conversation."""

    def __init__(
        self, conversation: Conversation, provider: "Provider", hands: Hands, judge: JudgeClient, transcript: Path
    ) -> None:
        self._conversation, self._provider, self._hands, self._judge = conversation, provider, hands, judge
        self._transcript = Transcript(transcript)

    def hold(self) -> str:
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
        answer = self._provider.ask(self._conversation, self._hands.pause)
        self._transcript.write("assistant", text=answer.text, commands=[call.command for call in answer.calls])
        results = []
        for call in answer.calls:
            results.append(UNREADABLE if call.command is None else self._hands.run(call.command))
            self._transcript.write("tool", text=results[-1])
        self._conversation.add(answer, results)
        return bool(answer.calls)

    def _say(self, text: str) -> None:
        self._conversation.say(text)
        self._transcript.write("user", text=text)


def make(config: AgentConfig) -> Agent:
    """Return the agent that works with the model that a config names; raise ``UsageError`` or ``MissingExtra``."""
    upstream, model = chosen_model(config)
    return NeutralAgent(upstream, model, config.effort)
