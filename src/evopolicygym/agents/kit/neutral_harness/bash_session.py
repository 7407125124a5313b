"""Runs the bash commands of the agent ``neutral`` in its sandbox."""

import json
import select
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from threading import Event
from typing import Self

from evopolicygym.agents.kit.judge_client import StopRequested
from evopolicygym.agents.kit.program import sandbox_killed
from evopolicygym.core import strict_json
from evopolicygym.core.agent import AgentEnd, AgentLimits, JudgeEndpoint, Workspace
from evopolicygym.core.directories import state_directory
from evopolicygym.core.errors import AgentError, EvoPolicyGymError, SandboxError
from evopolicygym.sandbox.base import JUDGE_PORT, Program, RunningProgram
from evopolicygym.sandbox.levels import program_sandbox

COMMAND_S = 300.0
"""Maximum duration of a command."""
KEEP_BYTES = 16_000
"""Maximum size of a command's output; its beginning and end are kept."""
SLACK_S = 30.0
LOOK_S = 0.1
LONGEST_ANSWER = 1 << 20
EXIT_S = 2.0
"""Seconds in which a sandbox whose command runner is gone must end, or else it is ended."""
RESTARTS = 10
COMMANDS_PORT = 8702
LOST = (
    "[the command's sandbox was terminated and started again: all processes, /tmp and the home directory are lost; "
    "/workspace is unchanged]"
)


class SandboxTerminated(EvoPolicyGymError):
    """The commands exceeded a limit, or terminated their sandbox too often, or it was killed from outside."""

    def __init__(self, message: str, end: AgentEnd = AgentEnd.CRASHED) -> None:
        super().__init__(message)
        self.end = end


class BashSession:
    """Runs commands; their processes are terminated at the end of the block."""

    def __init__(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> None:
        self._workspace, self._endpoint, self._stop = workspace, endpoint, stop
        self._program: RunningProgram | None = None
        self._channel: socket.socket | None = None
        self._restarts = 0
        self.findings: Mapping[str, str] = {}
        """Guarantees found for the sandbox, by name."""

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def run(self, command: str) -> str:
        """Run a bash command; return its output and how it ended.

        Raises ``StopRequested`` and ``SandboxTerminated``, as ``pause`` does.
        """
        request = {"command": command, "limit_s": COMMAND_S, "keep_bytes": KEEP_BYTES}
        try:
            answer = self._exchange(json.dumps(request).encode() + b"\n")
            output, end = str(answer["output"])[: 2 * KEEP_BYTES], str(answer["end"])[:200]
        except (OSError, ValueError, KeyError, TypeError):
            self._restart()
            return LOST
        return f"{output}{'' if not output or output.endswith(chr(10)) else chr(10)}[{end}]"

    def pause(self, seconds: float) -> None:
        """Wait; raise ``StopRequested`` if the agent should stop, ``SandboxTerminated`` if a limit is exceeded."""
        if self._stop.wait(seconds):
            raise StopRequested("The agent was asked to stop.")
        if self._program is not None and (limit := self._program.limit_exceeded()):
            raise SandboxTerminated(f"the agent's commands were terminated: {limit}")

    def _exchange(self, line: bytes) -> Mapping[str, object]:
        if self._channel is None:
            raise ConnectionError("There is no sandbox.")
        self._channel.sendall(line)
        data, deadline = b"", time.monotonic() + COMMAND_S + SLACK_S
        while not data.endswith(b"\n"):
            if not select.select([self._channel], [], [], LOOK_S)[0]:
                self.pause(0.0)
                if time.monotonic() > deadline:
                    raise TimeoutError("The command runner doesn't answer.")
                continue
            chunk = self._channel.recv(1 << 16)
            data += chunk
            if not chunk or len(data) > LONGEST_ANSWER:
                raise ConnectionError("The command runner ended or was replaced.")
        answer: Mapping[str, object] = strict_json.decode(data)
        return answer

    def _start(self) -> None:
        """Start the command runner and accept its only connection, before a command of the model could connect.

        Raises ``AgentError`` if the sandbox can't be created.
        """
        script = (files("evopolicygym.sandbox.program") / "inside" / "commands.py").read_text(encoding="utf-8")
        listening: list[socket.socket] = []
        try:
            self._program, findings = self._start_sandbox(script, listening)
            self.findings = {**self.findings, **findings, **self._program.findings}
            listening[0].settimeout(SLACK_S)
            self._channel, _ = listening[0].accept()
            self._channel.settimeout(SLACK_S)
        except (OSError, SandboxError) as error:
            self._leave()
            raise AgentError(f"Can't run the agent's commands: {error}") from error
        finally:
            for listener in listening:
                listener.close()

    def _start_sandbox(self, script: str, listening: list[socket.socket]) -> tuple[RunningProgram, Mapping[str, str]]:
        """Start a sandbox that connects to a socket, which is appended to ``listening``."""

        def serve(listener: socket.socket) -> Mapping[str, str]:
            listening.append(listener)
            host, port = listener.getsockname()
            return {"EVOPOLICYGYM_COMMANDS": f"{host}:{port}"}

        workspace, endpoint, sandbox = self._workspace, self._endpoint, program_sandbox(self._workspace.isolation)
        command = (sandbox.python, "-I", "-c", script)
        packages = workspace.policy_packages
        program = Program(
            command, workspace.directory, AgentLimits(), simulators=workspace.simulators, packages=packages
        )
        findings: Mapping[str, str] = {}
        if not self.findings:
            findings = sandbox.preflight(
                replace(program, command=("bash",)), [workspace.directory.parent, state_directory()]
            )
        endpoints = {JUDGE_PORT: lambda listener: endpoint.serve(listener).environment, COMMANDS_PORT: serve}
        return sandbox.start(program, endpoints), findings

    def _restart(self) -> None:
        if self._program is not None:
            with suppress(subprocess.TimeoutExpired):  # only the command runner ended
                self._program.process.wait(EXIT_S)
            if killed := sandbox_killed(self._program.exited()):
                raise SandboxTerminated(killed, AgentEnd.KILLED)
        self._leave()
        self._restarts += 1
        if self._restarts > RESTARTS:
            raise SandboxTerminated(f"the agent's commands terminated their sandbox {self._restarts} times")
        self._start()

    def _leave(self) -> None:
        channel, program = self._channel, self._program
        self._channel = self._program = None
        if channel is not None:
            channel.close()
        if program is not None:
            program.terminate(0.0)
            if program.process.stdout is not None:
                program.process.stdout.close()
