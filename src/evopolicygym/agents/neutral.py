"""The reference harness, the same for every model: a linear history and one tool, bash in the agent's workplace.

The conversation is held on this side, so that the key never enters the workplace. Nothing is compacted, and nothing of
a turn is remembered by the next run. Its parts are not here but in ``neutral_harness/``.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from evopolicygym.agents.command import MODEL_OPTIONS, upstream_of
from evopolicygym.agents.model_door.ledger import Ledger
from evopolicygym.agents.model_door.log import ModelLog
from evopolicygym.agents.model_door.upstream import ModelUpstream
from evopolicygym.agents.model_door.wire import CallRefused, Wire
from evopolicygym.agents.neutral_harness.hands import Hands, WorkEnded
from evopolicygym.agents.neutral_harness.wires import UNREADABLE, Chat, Conversation, Messages
from evopolicygym.agents.referee import JudgeUnreachable, Referee, Stopped
from evopolicygym.core.agent import Agent, AgentConfig, AgentEnd, Desk, Door, Turn
from evopolicygym.core.clock import now
from evopolicygym.core.errors import AgentError, MissingExtra, RequestRefused, UsageError

if TYPE_CHECKING:
    from evopolicygym.agents.neutral_harness.provider import Provider

MOST_WORDS_IN_A_ROW = 3
"""Answers without a call of the tool after which the turn is over."""
CONVERSATIONS: Mapping[Wire, type[Chat | Messages]] = {Wire.CHAT: Chat, Wire.MESSAGES: Messages}


class NeutralAgent:
    """Has one model work at the desk."""

    max_turns = 1

    def __init__(self, upstream: ModelUpstream, model: str, effort: str = "") -> None:
        self._upstream, self._model, self._effort = upstream, model, effort
        self.model_url = upstream.base_url

    def play(self, desk: Desk, door: Door, stop: Event) -> Turn:
        """Let the model work until the budget is spent, it has no more to do, or ``stop`` is set.

        Raises ``AgentError`` where there is no workplace, or where the model never answers.
        """
        from evopolicygym.agents.neutral_harness.provider import ConversationTooLong, ModelFailed, Provider

        ledger = Ledger(self._upstream.within(desk), desk.report)
        provider = Provider(self._upstream, self._model, ledger, ModelLog(desk.model_log))
        conversation: Conversation = CONVERSATIONS[self._upstream.wire](self._effort)
        with Hands(desk, door, stop) as hands:
            talk = _Talk(conversation, provider, hands, Referee(door.endpoint, stop), desk.transcript)
            try:
                end, message = AgentEnd.FINISHED, talk.hold()
            except ConversationTooLong as error:
                end, message = AgentEnd.FINISHED, f"the conversation outgrew the model's context: {error}"
            except CallRefused as error:
                end, message = AgentEnd.ALLOWANCE_SPENT, str(error)
            except Stopped as error:
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
        self, conversation: Conversation, provider: "Provider", hands: Hands, referee: Referee, transcript: Path
    ) -> None:
        self._conversation, self._provider, self._hands, self._referee = conversation, provider, hands, referee
        self._transcript = transcript

    def hold(self) -> str:
        """Go on until there is no more to do; return why."""
        self._say((files("evopolicygym.agents") / "neutral_harness" / "prompt.md").read_text(encoding="utf-8"))
        words = 0
        while True:
            info = self._referee.info()
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
        self._write("assistant", text=answer.text, commands=[call.command for call in answer.calls])
        results = []
        for call in answer.calls:
            results.append(UNREADABLE if call.command is None else self._hands.run(call.command))
            self._write("tool", text=results[-1])
        self._conversation.add(answer, results)
        return bool(answer.calls)

    def _say(self, text: str) -> None:
        self._conversation.say(text)
        self._write("user", text=text)

    def _write(self, role: str, **what: object) -> None:
        line: Mapping[str, object] = {"time": now(), "role": role, **what}
        self._transcript.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError), self._transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def make(config: AgentConfig) -> Agent:
    """Return the agent that works with the model that a config names; raise ``UsageError`` or ``MissingExtra``."""
    if unknown := set(config.options) - set(MODEL_OPTIONS):
        raise UsageError(
            f"The agent 'neutral' has no option {', '.join(sorted(unknown))}; it takes {', '.join(MODEL_OPTIONS)}."
        )
    upstream = upstream_of(config)
    if upstream is None or not config.model:
        raise UsageError(
            "The agent 'neutral' needs a model and its server: evopolicygym run TASK --agent neutral --model NAME "
            "--model-url URL --model-key VARIABLE."
        )
    try:
        import httpx  # noqa: F401 - only whether it is there
    except ModuleNotFoundError as error:
        raise MissingExtra("The agent 'neutral'", "agents", str(error.name)) from error
    return NeutralAgent(_resolved(upstream), config.model, config.effort)


def _resolved(upstream: ModelUpstream) -> ModelUpstream:
    """Return an upstream with one of the two formats, and the address as that has it; ``UsageError`` if unsure."""
    parts = urlsplit(upstream.prefix)
    wire = upstream.wire
    if wire is Wire.AUTO and (parts.hostname or "").endswith("anthropic.com"):
        wire = Wire.MESSAGES
    elif wire is Wire.AUTO and parts.path.rpartition("/")[2] in {"v1", "openai"}:
        wire = Wire.CHAT
    if wire not in CONVERSATIONS:
        raise UsageError(
            f"The agent 'neutral' speaks chat and messages, and was given the wire {wire.value!r}, from which it can't "
            f"tell what this server speaks: give --model-wire chat or --model-wire messages."
        )
    base = upstream.prefix.removesuffix("/v1") if wire is Wire.MESSAGES else upstream.prefix
    return replace(upstream, base_url=base, wire=wire)
