"""The default solver: Inspect's ``react`` with a shell and an editor in the workplace, until the run is over."""

from inspect_ai.agent import Agent, AgentContinue, AgentState, agent, react
from inspect_ai.model import ChatMessageAssistant
from inspect_ai.tool import bash, text_editor

from evopolicygym.inspect_tasks.scoring import run_sandbox

COMMAND_S = 300
"""Seconds that one command may take."""
MOST_WORDS_IN_A_ROW = 3
"""Answers in a row without a call of a tool, after which the agent is over."""
PROMPT = """\
You improve an executable policy by playing it, reading what came of it, and editing it. Commands run in /workspace,
in a sandbox without network. Nobody answers questions: decide by yourself, and work until the episode budget is
spent."""


@agent(name="react")
def policy_improver() -> Agent:
    """Return Inspect's ``react`` agent, which is over once the budget is spent or its model calls no tool any more."""
    return react(
        name="react",
        description="Improves a policy within its episode budget.",
        prompt=PROMPT,
        tools=[bash(timeout=COMMAND_S), text_editor(timeout=COMMAND_S)],
        submit=False,
        on_continue=while_there_is_budget(),
    )


def while_there_is_budget() -> AgentContinue:
    """Return what decides after each answer whether the agent goes on."""

    async def go_on(state: AgentState) -> bool | str:
        run = run_sandbox().played
        if run.closed or run.hosted is None:
            return False
        if state.output.message.tool_calls:
            return True
        if _words_in_a_row(state) >= MOST_WORDS_IN_A_ROW:
            return False
        return f"{run.hosted.remaining} episodes are left. Go on with the tools until they are spent."

    return go_on


def _words_in_a_row(state: AgentState) -> int:
    """Return how many of the last answers called no tool."""
    answers = [message for message in state.messages if isinstance(message, ChatMessageAssistant)]
    return next((place for place, one in enumerate(reversed(answers)) if one.tool_calls), len(answers))
