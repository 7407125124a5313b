"""The agent ``neutral``, a reference harness that is the same for every model: a linear history and one tool, bash.

Many models write calls as text, whatever the request offers; such actions are recognised. With the option
``actions=text`` no tool is offered, and all actions are fenced blocks. Which were used is in the record.

The conversation is held outside the sandbox, so the key never enters it. The history is never compacted, and no state
is shared between runs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from importlib.resources import files
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from evopolicygym.agents.base import About, Model
from evopolicygym.agents.kit.answer_replay import compare_answers
from evopolicygym.agents.kit.judge_client import JudgeClient, JudgeUnreachable, StopRequested
from evopolicygym.agents.kit.model_options import (
    CACHE,
    SAMPLING,
    caches_of,
    choose_model,
    describe_model,
    sampling_of,
)
from evopolicygym.agents.kit.model_requests import ModelRequests
from evopolicygym.agents.kit.neutral_harness.bash_session import BashSession, SandboxTerminated
from evopolicygym.agents.kit.neutral_harness.chat_formats import CONVERSATIONS, UNREADABLE, add_step
from evopolicygym.agents.kit.neutral_harness.text_actions import actions_in, tools_called
from evopolicygym.core.agent import Agent, AgentConfig, AgentEnd, ComparedAnswer, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.errors import AgentError, RequestRefused, UsageError
from evopolicygym.model_proxy.upstream import ModelUpstream

if TYPE_CHECKING:
    from evopolicygym.agents.kit.neutral_harness.model_client import ModelClient

ABOUT = About("the reference harness: any model with one tool, bash", Model.NEEDED, extra="agents", imports=("httpx2",))
MOST_ANSWERS_WITHOUT_CALLS = 3
"""Consecutive answers without an action after which the turn ends."""
LAST_WORDS = 160
"""Characters of the last answer without an action that are quoted."""
OTHER_CALL = "[a call of another tool, or without a command]"
"""What stands for the text of an answer whose calls can't be run."""


class Actions(StrEnum):
    """How a model acts."""

    AUTO = "auto"
    """By calls of the tool, or by what it writes as text where an answer has none."""
    TEXT = "text"
    """By fenced blocks of its text; no tool is offered."""


class NeutralAgent:
    """Lets one model work in the workspace."""

    max_turns = 1
    starts_program = True
    forgets = True

    def __init__(self, upstream: ModelUpstream, requests: ModelRequests, effort: str, actions: Actions) -> None:
        self._upstream, self._requests, self._effort, self._actions = upstream, requests, effort, actions
        self.model_url = upstream.base_url

    def model_details(self) -> Mapping[str, str]:
        """Return what the server tells of the model, the sampling, and whether it answers again in the same way."""
        server = describe_model(self._upstream)
        return {**server, **replace(self._requests, server=server).details}

    def compare_answers(
        self, lines: Iterable[Mapping[str, Any]], details: Mapping[str, str]
    ) -> Iterator[ComparedAnswer]:
        """Send the requests of a transcript again, and yield each answer beside the recorded one."""
        conversation = partial(CONVERSATIONS[self._upstream.wire], self._effort, bash=self._actions is not Actions.TEXT)
        return compare_answers(self._upstream, replace(self._requests, server=details), conversation, lines)

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
            ModelClient(self._upstream, replace(self._requests, server=workspace.model_details), workspace) as model,
            BashSession(workspace, endpoint, stop) as bash,
        ):
            judge = JudgeClient(endpoint.address, stop)
            conversation = _Conversation(model, self._effort, self._actions, bash, judge, workspace.transcript)
            waiting_s = 0.0
            try:
                end, message = conversation.run()
            except ConversationTooLong as error:
                if not model.has_answered:
                    raise AgentError(f"The agent can't work: {error}") from error
                end, message = AgentEnd.CONTEXT_EXCEEDED, str(error)
            except AllowanceSpent as error:
                end, message = AgentEnd.ALLOWANCE_SPENT, str(error)
            except StopRequested as error:
                end, message, waiting_s = AgentEnd.STOPPED, str(error), model.waiting_s()
            except ModelFailed as error:
                if not (model.has_answered or error.end.pauses):
                    raise AgentError(f"The agent can't work: {error}") from error
                end, message = error.end, str(error)
            except SandboxTerminated as error:
                end, message = error.end, str(error)
            except (RequestRefused, JudgeUnreachable) as error:
                end, message = AgentEnd.CRASHED, str(error)
        findings = {**bash.findings, **model.findings, "actions": conversation.acted}
        return Turn(end, message, model.usage().figures(), findings, waiting_s=waiting_s)


class _Conversation:
    """The conversation of a turn."""

    def __init__(
        self,
        model: "ModelClient",
        effort: str,
        actions: Actions,
        bash: BashSession,
        judge: JudgeClient,
        transcript: Path,
    ) -> None:
        from evopolicygym.agents.kit.neutral_harness.model_client import Transcript

        self._model, self._bash, self._judge = model, bash, judge
        self._actions = actions
        self._history = model.conversation(effort, bash=actions is not Actions.TEXT)
        self._transcript = Transcript(transcript)
        self._n_calls = self._n_texts = 0

    @property
    def acted(self) -> str:
        """How the model has acted so far."""
        how = [f"{self._n_calls} calls"] * bool(self._n_calls) + [f"{self._n_texts} as text"] * bool(self._n_texts)
        return ", ".join(how) or "none"

    def run(self) -> tuple[AgentEnd, str]:
        """Converse until the budget is spent or the model stops; return how the turn ends, and why."""
        directory, texts = files("evopolicygym.agents.kit") / "neutral_harness", ["prompt.md"]
        if self._actions is Actions.TEXT:
            texts.append("prompt_text.md")
        self._say("".join((directory / name).read_text(encoding="utf-8") for name in texts), begins=True)
        before, without = self._judge.info().remaining_budget, list[str]()
        while True:
            info = self._judge.info()
            if info.is_finalized or not info.remaining_budget:
                return AgentEnd.FINISHED, "the budget is spent"
            if len(without) == MOST_ANSWERS_WITHOUT_CALLS:
                end = AgentEnd.GAVE_UP if info.remaining_budget == before else AgentEnd.FINISHED
                return end, self._why_it_ended(info.remaining_budget, without)
            if without and without[-1] != OTHER_CALL:  # such a call has its answer
                how = "fenced blocks" if self._actions is Actions.TEXT else "the bash tool"
                self._say(
                    f"{info.remaining_budget} of {info.episode_budget} episodes are left. Continue with {how} "
                    f"until they are spent."
                )
            acted, text = self._step()
            without = [] if acted else [*without, text]

    def _why_it_ended(self, left: int, answers: Sequence[str]) -> str:
        """Return why answers led to nothing, and the next step."""
        words = " ".join(answers[-1].split())
        quoted = words if len(words) <= LAST_WORDS else words[:LAST_WORDS] + " …"
        last = f"the last one began: {quoted!r}" if words else "the last one was empty"
        tools = dict.fromkeys(tool for answer in answers for tool in tools_called(answer))
        calls = f"; calls were written as text, of {', '.join(map(repr, tools))}, not of 'bash'" if tools else ""
        if "bash" in tools:
            calls = "; calls were written as text that could not be read"
        reason = f"{len(answers)} answers in a row had no command to run, with {left} episodes left{calls}; {last}."
        if self._actions is Actions.TEXT:
            return f"{reason} Try a larger model, or --agent rewrite, which asks for programs alone."
        if tools or OTHER_CALL in answers or not self._n_calls:
            return f"{reason} Try --option actions=text, or --agent rewrite, which asks for programs alone."
        return reason

    def _step(self) -> tuple[bool, str]:
        """Get an answer and run its commands; return whether any could be run, and its text."""
        answer = self._model.ask(self._history, self._bash.pause)
        texts = [] if answer.calls else actions_in(answer.text)
        self._n_calls, self._n_texts = self._n_calls + len(answer.calls), self._n_texts + len(texts)
        commands = [call.command for call in answer.calls] or texts
        line = {"text": answer.text, "commands": commands} | ({"as": "text"} if texts else {}) | self._model.asked
        if answer.message not in (None, {"role": "assistant", "content": answer.text}):
            line["message"] = answer.message
        self._transcript.write("assistant", **line)
        results = []
        for command in commands:
            results.append(UNREADABLE if command is None else self._bash.run(command))
            self._transcript.write("tool", text=results[-1])
        add_step(self._history, answer, results)
        text = OTHER_CALL if answer.calls else answer.text
        return any(command is not None for command in commands), text

    def _say(self, text: str, **more: object) -> None:
        self._history.say(text)
        self._transcript.write("user", text=text, **more)


def make(config: AgentConfig) -> Agent:
    """Return the agent with the model in a config; raise ``UsageError`` or ``MissingExtra``."""
    upstream, model = choose_model(config, CONVERSATIONS, ("actions", CACHE, *SAMPLING))
    actions = str(config.options.get("actions", Actions.AUTO))
    if actions not in set(Actions):
        raise UsageError(f"Invalid option actions of the agent 'neutral': expected auto or text, got {actions!r}.")
    # Its history grows: without the cache every request would be read from the start.
    requests = ModelRequests(
        model, upstream.wire, sampling_of(config, upstream.wire), server={}, caches=caches_of(config, default="on")
    )
    return NeutralAgent(upstream, requests, config.effort, Actions(actions))
