"""The bash of the agent ``neutral``: commands that run in its sandbox, one after another."""

import json
import select
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from threading import Event
from typing import Self

from evopolicygym.agents.kit.judge_client import StopRequested
from evopolicygym.core import strict_json
from evopolicygym.core.agent import AgentLimits, JudgeEndpoint, Workspace
from evopolicygym.core.errors import AgentError, EvoPolicyGymError, SandboxError
from evopolicygym.core.places import state_directory
from evopolicygym.sandbox.base import JUDGE_PORT, Program, RunningProgram
from evopolicygym.sandbox.levels import program_sandbox

COMMAND_S = 300.0
"""The longest that a command may run."""
KEEP_BYTES = 16_000
"""The most that is kept of what a command prints: its beginning and its end."""
SLACK_S = 30.0
LOOK_S = 0.1
LONGEST_ANSWER = 1 << 20
RESTARTS = 10
COMMANDS_PORT = 8702
LOST = (
    "[the command's sandbox ended under it, and was started anew: its processes, /tmp and the home are gone, "
    "/workspace is as it was]"
)


class SandboxTerminated(EvoPolicyGymError):
    """What runs in the workplace went over a limit, or ended its workplace too often."""


class BashSession:
    """Runs commands; everything that they started is gone when it is left."""

    def __init__(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> None:
        self._workspace, self._endpoint, self._stop = workspace, endpoint, stop
        self._program: RunningProgram | None = None
        self._channel: socket.socket | None = None
        self._restarts = 0
        self.findings: Mapping[str, str] = {}
        """What was found to hold the commands in, by name."""

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def run(self, command: str) -> str:
        """Run a bash command; return what it printed and how it ended.

        Raises ``StopRequested`` and ``SandboxTerminated``, as ``pause`` does.
        """
        asked = {"command": command, "limit_s": COMMAND_S, "keep_bytes": KEEP_BYTES}
        try:
            answer = self._exchange(json.dumps(asked).encode() + b"\n")
            output, end = str(answer["output"])[: 2 * KEEP_BYTES], str(answer["end"])[:200]
        except (OSError, ValueError, KeyError, TypeError):
            self._restart()
            return LOST
        return f"{output}{'' if not output or output.endswith(chr(10)) else chr(10)}[{end}]"

    def pause(self, seconds: float) -> None:
        """Wait; raise ``StopRequested`` where the agent is to stop, ``SandboxTerminated`` where a limit is passed."""
        if self._stop.wait(seconds):
            raise StopRequested("The agent was asked to stop.")
        if self._program is not None and (over := self._program.limit_exceeded()):
            raise SandboxTerminated(f"the agent's commands were ended: {over}")

    def _exchange(self, line: bytes) -> Mapping[str, object]:
        if self._channel is None:
            raise ConnectionError("There is no workplace.")
        self._channel.sendall(line)
        data, deadline = b"", time.monotonic() + COMMAND_S + SLACK_S
        while not data.endswith(b"\n"):
            if not select.select([self._channel], [], [], LOOK_S)[0]:
                self.pause(0.0)
                if time.monotonic() > deadline:
                    raise TimeoutError("What runs the commands doesn't answer.")
                continue
            chunk = self._channel.recv(1 << 16)
            data += chunk
            if not chunk or len(data) > LONGEST_ANSWER:
                raise ConnectionError("What runs the commands is gone, or is not ours any more.")
        answer: Mapping[str, object] = strict_json.decode(data)
        return answer

    def _start(self) -> None:
        """Start what runs the commands, and take its one connection before a command of the model's can.

        Raises ``AgentError`` where no workplace can be made.
        """
        script = (files("evopolicygym.sandbox.program") / "inside" / "commands.py").read_text(encoding="utf-8")
        listening: list[socket.socket] = []
        try:
            self._program, found = self._entered(script, listening)
            self.findings = {**self.findings, **found, **self._program.findings}
            listening[0].settimeout(SLACK_S)
            self._channel, _ = listening[0].accept()
            self._channel.settimeout(SLACK_S)
        except (OSError, SandboxError) as error:
            self._leave()
            raise AgentError(f"The agent's commands can't be run: {error}") from error
        finally:
            for listener in listening:
                listener.close()

    def _entered(self, script: str, listening: list[socket.socket]) -> tuple[RunningProgram, Mapping[str, str]]:
        """Start a workplace that connects to a socket, which is appended to ``listening``."""

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
        found: Mapping[str, str] = {}
        if not self.findings:
            found = sandbox.preflight(
                replace(program, command=("bash",)), [workspace.directory.parent, state_directory()]
            )
        endpoints = {JUDGE_PORT: lambda listener: endpoint.serve(listener).environment, COMMANDS_PORT: serve}
        return sandbox.start(program, endpoints), found

    def _restart(self) -> None:
        self._leave()
        self._restarts += 1
        if self._restarts > RESTARTS:
            raise SandboxTerminated(f"the agent's commands ended their sandbox {self._restarts} times")
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
