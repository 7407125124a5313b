"""The agent ``acp``: any tool that supports the Agent Client Protocol, through the client ``kit/acp_client.py``."""

import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from evopolicygym.agents.base import About, Model
from evopolicygym.agents.builtin.gemini import Gemini
from evopolicygym.agents.builtin.kimi_code import KimiCode
from evopolicygym.agents.builtin.opencode import OpenCode
from evopolicygym.agents.builtin.qwen import Qwen
from evopolicygym.agents.kit.acp_client import TELL_VERSION
from evopolicygym.agents.kit.tool import Event, Tool, ToolEvent, ToolTask, make_tool_agent, tokens
from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.core.errors import UsageError
from evopolicygym.model_proxy.formats import ApiFormat
from evopolicygym.model_proxy.upstream import ModelAddress
from evopolicygym.sandbox.program.view import launch_command, python_of

COMMAND, MODEL = "command", "{model}"
CLIENT = ".acp/client.py"
"""The client's path in the tool's home."""
IN_SHELL = f'exec python3 "$HOME/{CLIENT}" "$@"'
VERSION_IN_SHELL = 'exec python3 -c "$@"'
IN_PYTHON = f"import os, runpy; runpy.run_path(os.path.expanduser('~/{CLIENT}'), run_name='__main__')"
KNOWN: Mapping[str, tuple[type[Tool], tuple[str, ...]]] = {
    "gemini": (Gemini, ("--model", MODEL, "--skip-trust")),
    "qwen": (Qwen, ("--model", MODEL, "--auth-type", "openai")),
    "opencode": (OpenCode, ()),
    "kimi": (KimiCode, ()),
}
"""Programs that need settings, each with the arguments added to its command."""
ABOUT = About(
    "any tool that supports the Agent Client Protocol",
    Model.NEEDED,
    extra="agents",
    imports=("httpx2",),
    needs='--option command="PROGRAM ARGUMENTS"',
)


class AcpTool(Tool):
    """A tool behind the client. Its usage is for one prompt, in the tool's own count."""

    install = "its own instructions"

    def __init__(self, command: Sequence[str], known: Tool | None, wire: ApiFormat) -> None:
        super().__init__()
        python = python_of(command)
        self.program = python or "/bin/sh"  # type: ignore[misc] # as the command has it, not as a class
        self.wire = known.wire if known else wire  # type: ignore[misc]
        self.url = known.url if known else ""  # type: ignore[misc]
        self.key = known.key if known else ""  # type: ignore[misc]
        self.efforts = known.efforts if known else None  # type: ignore[misc]
        self._command, self._known = command, known
        self._start = ("-c", IN_PYTHON) if python else ("-c", IN_SHELL, "acp")

    def arguments(self, task: ToolTask) -> Sequence[str]:
        """Return the arguments for the client, which starts the tool."""
        command = [word.replace(MODEL, task.model) for word in self._command]
        text = (files("evopolicygym.agents.kit") / "prompt.txt").read_text(encoding="utf-8")
        first = text.partition("\n---\n")[0].strip() if task.conversation else ""
        return (*self._start, task.prompt, first, task.conversation, *command)

    def version_command(self, program: Path) -> Sequence[str]:
        """Return the command of the client that prints the version which the tool tells when it is initialised."""
        client = (files("evopolicygym.agents.kit") / "acp_client.py").read_text(encoding="utf-8")
        start = ("-c",) if python_of((str(program),)) else ("-c", VERSION_IN_SHELL, "acp")
        return (str(program), *start, client, TELL_VERSION, *self._command)

    def files(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:
        """Return the client, and the settings of a known tool."""
        client = (files("evopolicygym.agents.kit") / "acp_client.py").read_text(encoding="utf-8")
        return {**(self._known.files(model, endpoint) if self._known else {}), CLIENT: client}

    def environment(self, model: str, endpoint: ModelAddress) -> Mapping[str, str]:
        """Return the tool's environment variables, with its model's address."""
        if self._known:
            return self._known.environment(model, endpoint)
        return {**endpoint.environment, "OPENAI_MODEL": model, "ANTHROPIC_MODEL": model, "GEMINI_MODEL": model}

    def parse_event(self, event: Event) -> ToolEvent:
        """Return the content of an event of the client."""
        match event["type"]:
            case "session":
                return ToolEvent(conversation=event["id"] if event["loads"] else "")
            case "message":
                return ToolEvent(message=event["text"])
            case "stop":
                names = {"input": "inputTokens", "cached_input": "cachedReadTokens", "output": "outputTokens"}
                return ToolEvent(usage=tokens(event["usage"], **names))
            case "error":
                return ToolEvent(error=event["message"])
            case _:
                return ToolEvent()


def make(config: AgentConfig) -> Agent:
    """Return the agent; raise ``UsageError`` if its command is missing or not found, or an option is invalid."""
    command = str(config.options.get(COMMAND, ""))
    example = f'evopolicygym run TASK --agent {config.name} --model NAME --option command="gemini --acp"'
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"Invalid option command {command!r}: {error}. Example: {example}") from error
    if not words or "program" in config.options:
        raise UsageError(f"The agent {config.name!r} needs the option command, and not program. Example: {example}")
    executable = shutil.which(words[0])
    if executable is None:
        raise UsageError(
            f"The agent {config.name!r} needs the program {words[0]!r}, which was not found. Install it, or give its "
            f"path: --option command=PATH"
        )
    kind, more = KNOWN.get(Path(words[0]).name, (None, ()))
    wire = str(config.options.get("model_wire", ""))
    tool = AcpTool(
        (*launch_command(Path(executable)), *words[1:], *more),
        kind(config.effort) if kind else None,
        ApiFormat(wire) if wire in set(ApiFormat) else ApiFormat.AUTO,
    )
    options = {name: value for name, value in config.options.items() if name != COMMAND}
    return make_tool_agent(tool, replace(config, options={**options, "program": tool.program}))
