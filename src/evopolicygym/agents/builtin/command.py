"""The agent ``command``: any program, started once in the workspace, with the judge's address in its environment."""

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from shlex import quote
from threading import Event

from evopolicygym.agents.base import About, Model, refuse_effort
from evopolicygym.agents.kit.judge_client import JudgeClient
from evopolicygym.agents.kit.model_options import describe_model, limits_of, upstream_of
from evopolicygym.agents.kit.program import (
    Launch,
    ProgramEnd,
    exit_message,
    refuse_no_terminal,
    run_in_terminal,
    run_program,
    server_failure,
)
from evopolicygym.core.agent import (
    IN_WORKSPACE,
    INTERACTIVE,
    Agent,
    AgentConfig,
    AgentEnd,
    AgentLimits,
    JudgeEndpoint,
    Turn,
    Workspace,
)
from evopolicygym.core.errors import UsageError
from evopolicygym.model_proxy.proxy import ModelProxy
from evopolicygym.model_proxy.upstream import ModelUpstream
from evopolicygym.sandbox.base import Guarantee
from evopolicygym.sandbox.levels import guarantees

ABOUT = About("any program, started once in the workspace", Model.OPTIONAL, needs="-- PROGRAM")
PYTHON = re.compile(r"python[0-9.]*", re.ASCII)
INTERPRETER = re.compile(r"(python|pypy)[0-9.]*|sh|bash|node", re.ASCII)
"""Programs that run the file given as their first argument."""


class CommandAgent:
    """Runs one program."""

    max_turns = 1
    starts_program = True

    def __init__(
        self,
        command: tuple[str, ...],
        limits: AgentLimits,
        upstream: ModelUpstream | None = None,
        *,
        interactive: bool = False,
    ) -> None:
        """``interactive`` runs the program in the user's terminal."""
        self._launch = Launch(command, limits)
        self._interactive = interactive
        self._upstream = upstream
        self.model_url = upstream.base_url if upstream else ""
        self.forgets = upstream is not None and not interactive

    def model_details(self) -> Mapping[str, str]:
        """Return what the server tells of the model; empty without one."""
        return describe_model(self._upstream)

    def refuse(self, environment: str) -> None:  # noqa: ARG002 - a program may play any
        """Raise ``UsageError`` if the program, an interpreter's script, or the terminal is missing."""
        if self._interactive:
            refuse_no_terminal(f"The agent {self._launch.command[0]!r}")
        program, *arguments = self._launch.command
        script = arguments[0] if arguments and INTERPRETER.fullmatch(Path(program).name) else ""
        script = "" if script.startswith("-") else script
        missing = program if not _is_there(program) else script if script and not _is_file(script) else ""
        if missing:
            raise UsageError(
                f"Invalid agent program {' '.join(self._launch.command)!r}: there is no {missing!r} here or in a "
                f"workspace. Give the path of a file, or the name of a program on PATH, after --."
            )

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Run the program until it ends, exceeds a limit, or ``stop`` is set.

        Raises ``AgentError`` if it can't be started, ``SandboxError`` if it can't be terminated, and the errors of
        ``ModelProxy``.
        """
        with ExitStack() as stack:
            if self._upstream is None:
                return self._play(workspace, endpoint, None, stop)
            model = stack.enter_context(
                ModelProxy(self._upstream.within(workspace), workspace.model_log, workspace.report)
            )
            judge = JudgeClient(endpoint.address, stop)
            before = judge.info().remaining_budget
            turn, waiting_s = self._play(workspace, endpoint, model, stop), model.waiting_s()
            failure = server_failure(model.trouble(), self._upstream.prefix)
            if failure and turn.end in {AgentEnd.CRASHED, AgentEnd.FINISHED}:
                after = judge.info()
                left = 0 if after.is_finalized else after.remaining_budget
                if left and (turn.end is AgentEnd.CRASHED or left == before):
                    turn = replace(turn, end=failure[0], message=failure[1])
            return replace(turn, usage=model.usage().figures(), waiting_s=waiting_s)

    def _play(self, workspace: Workspace, endpoint: JudgeEndpoint, model: ModelProxy | None, stop: Event) -> Turn:
        launch = replace(self._launch, stop_reason=model.spent) if model else self._launch
        play = run_in_terminal if self._interactive else run_program
        return self._turn(play(launch, workspace, endpoint, model, stop), workspace)

    def _turn(self, ended: ProgramEnd, workspace: Workspace) -> Turn:
        """Return the turn for a program's end."""
        if ended.limit:
            return Turn(AgentEnd.CRASHED, f"the program was terminated: {ended.limit}", findings=ended.findings)
        if ended.stop_reason:
            return Turn(AgentEnd.ALLOWANCE_SPENT, ended.stop_reason, findings=ended.findings)
        if ended.code is None:
            return Turn(AgentEnd.STOPPED, findings=ended.findings)
        if ended.killed:
            return Turn(AgentEnd.KILLED, ended.killed, findings=ended.findings)
        if ended.code:
            message = exit_message(ended.code, workspace.transcript)
            return Turn(AgentEnd.CRASHED, message + self._python_hint(message, workspace), findings=ended.findings)
        return Turn(AgentEnd.FINISHED, findings=ended.findings)

    def _python_hint(self, message: str, workspace: Workspace) -> str:
        """Return how to use the user's own Python if the sandbox's lacks a module; otherwise an empty string."""
        program, *arguments = self._launch.command
        inside = Guarantee.PROGRAM_ENCLOSED in guarantees(workspace.isolation)
        if "ModuleNotFoundError" not in message or not PYTHON.fullmatch(program) or not inside:
            return ""
        return (
            f". In the sandbox, {program} is the policies' Python, not your shell's. To use yours: "
            f'-- "$(which {program})" {" ".join(map(quote, arguments))}'
        )


def _is_there(program: str) -> bool:
    """Return whether a program exists: a path here or in a workspace, or a name on the PATH."""
    if "/" in program:
        return _is_file(program)
    return any(shutil.which(program, path=path) for path in (None, os.defpath))


def _is_file(name: str) -> bool:
    path = Path(name)
    in_workspace = not path.is_absolute() and path.parts[:1] != () and path.parts[0] in IN_WORKSPACE
    return in_workspace or (path.is_absolute() and path.is_file())


def make(config: AgentConfig) -> Agent:
    """Return the agent that runs the config's command, with the limits and the model in its options."""
    if not config.command:
        raise UsageError("The agent 'command' needs a program. Example: evopolicygym run TASK -- PROGRAM [ARGUMENT …]")
    refuse_effort(config, None)
    limits = limits_of(config, (INTERACTIVE,))
    return CommandAgent(config.command, limits, upstream_of(config), interactive=bool(config.options.get(INTERACTIVE)))
