"""The judge of a served run as tools of the Model Context Protocol, over standard input and output or over HTTP.

Another process plays the run (``evopolicygym serve``), so the end of an editor or of this server loses nothing. Each
call looks up the judge's address, so a resumed run is found again.
"""

import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, ParamSpec

from mcp.server import MCPServer
from mcp.server.mcpserver import Image
from mcp.server.mcpserver.exceptions import ToolError

from evopolicygym.agents.kit.judge_client import JudgeClient, JudgeUnreachable, Remarks, replace_system
from evopolicygym.agents.kit.outside_agent import CLOSED_FILE, SOCKET, RelayedJudge, read_addresses
from evopolicygym.core import regular_file
from evopolicygym.core.agent import SYSTEM
from evopolicygym.core.errors import EvoPolicyGymError, UsageError
from evopolicygym.core.score import estimate
from evopolicygym.version import __version__

MAX_TEXT = 100_000
"""Characters that one call returns of a file or a table."""
MAX_FILE = 64 << 20
"""Bytes of a feedback file that is read."""
CLIENT = Path(__file__).parents[2] / "runs" / "workspace_template" / "judge"
"""The workspace's client. Tools that only read run it, so that they return what it prints."""
CLIENT_TIMEOUT_S = 120.0
INSTRUCTIONS = """
You improve an executable policy: play it, read the results, edit it, until the episode budget is spent. Call `task`
first, then `info`. Edit the files in system/ of the workspace that `info` names, call `check`, then `submit`, and read
`feedback`. Every submitted episode costs one of the budget.
"""
Parameters = ParamSpec("Parameters")


def judge_tools(workspace: Path) -> MCPServer:
    """Return the server whose tools are the judge's calls, for the run that is served in a workspace."""
    server = MCPServer(
        "evopolicygym",
        instructions=INSTRUCTIONS.strip(),
        version=__version__,
        log_level="WARNING",
    )
    tools = _Tools(workspace)
    for call in (
        *(tools.task, tools.info, tools.check, tools.submit, tools.submissions, tools.show, tools.feedback),
        *(tools.compare, tools.trace, tools.export, tools.diff, tools.restore, tools.finish),
    ):
        server.tool()(_report_errors(call))
    server.tool(structured_output=False)(_report_errors(tools.frames))
    return server


class _Tools:
    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def task(self) -> str:
        """Return the task as Markdown: the objective, observations, actions, reward and rules."""
        return self._judge().task()

    def info(self) -> dict[str, Any]:
        """Return the remaining budget, the cases, the limits, and the path of the workspace."""
        return {**self._judge().all_info(), "workspace": str(self._workspace)}

    def check(self, set: dict[str, bool | float | str] | None = None) -> dict[str, Any]:  # noqa: A002 - the field's name
        """Construct the policy in its sandbox and have it act once, free of charge."""
        return self._judge().check(set)

    def submit(
        self,
        cases: str,
        key: str = "",
        set: dict[str, bool | float | str] | None = None,  # noqa: A002 - as above
        parent: int | None = None,
        hypothesis: str = "",
        films: list[int] | None = None,
    ) -> dict[str, Any]:
        """Play the policy in system/ on train cases such as "0-7,12", and return the results.

        Each episode costs one of the budget. The same key again returns the same submission and costs nothing. ``set``
        changes, for this submission, parameters that system/parameters.json declares. ``parent`` is the submission that
        the policy was made from (-1: the starter). ``hypothesis`` says what you expect. ``films`` are those of the
        cases that are filmed as well, if the run has films.
        """
        key = key or secrets.token_hex(8)
        try:
            summary = self._judge().submit(cases, key, films or (), Remarks(set or {}, parent, hypothesis))
        except JudgeUnreachable as error:
            raise ToolError(
                f"{error} It may have been charged. To ask again without a second charge, once the run is served "
                f"again: key={key!r}."
            ) from error
        return {
            "submission": summary.submit_id,
            "status": summary.status,
            "mean_return": estimate(summary.returns).mean if summary.returns else None,
            "returns": list(summary.returns),
            "failed": list(summary.failed),
            "remaining_budget": summary.remaining_budget,
            "feedback": str(self._feedback_directory(summary.submit_id)),
        }

    def submissions(self) -> str:
        """Return a table of all submissions so far."""
        return self._client("list")

    def show(self, submission: int) -> str:
        """Return a table of a submission's episodes: case, return, length, and how each ended."""
        return self._client("show", submission)

    def feedback(self, submission: int, file: str = "summary.json") -> str:
        """Return a file of a submission's feedback; for an unknown name, the names that exist."""
        directory = self._feedback_directory(submission)
        try:
            files = {path.relative_to(directory).as_posix(): path for path, _ in regular_file.below(directory)}
        except FileNotFoundError:
            raise ToolError(f"There is no feedback of a submission {submission}.") from None
        if file not in files:
            return json.dumps({"files": sorted(files)})
        return _cut(regular_file.read(files[file], MAX_FILE, directory).decode("utf-8", "replace"))

    def compare(self, first: int, second: int) -> str:
        """Return returns and lengths of two submissions on the cases that both played, with the paired difference."""
        return self._client("compare", first, second)

    def trace(self, episode: int, every: int = 1, fields: str = "t,obs,action,reward") -> str:
        """Return the steps of an episode as a table, every so many; fields may name parts, such as obs.0."""
        return self._client("trace", episode, "--every", every, "--fields", fields)

    def export(self, episodes: list[int], to: str = "notes") -> dict[str, Any]:
        """Write episodes as npz files of observations, actions and rewards into a directory; return their paths."""
        exported: dict[str, Any] = json.loads(self._client("export", *episodes, "--to", to, "--json"))
        return exported

    def diff(self, first: int, second: int | None = None) -> str:
        """Return what changed from one submission's policy to another's, or to system/ as it stands."""
        return self._client("diff", first, *([] if second is None else [second]))

    def frames(self, episode: int, steps: str) -> list[Image]:
        """Return pictures of an episode at steps such as "0,50,100": of its film, or else of its observations."""
        with TemporaryDirectory() as directory:
            self._client("frames", episode, steps, "--to", directory)
            shown = {int(path.stem.rpartition("_")[2]): path for path in Path(directory).iterdir()}
            return [Image(data=shown[step].read_bytes(), format="png") for step in sorted(shown)]

    def restore(self, submission: int, path: str = "") -> dict[str, Any]:
        """Restore system/ as it was in a submission, and remove what else it holds; with a path, only what is there."""
        if path:
            restored: dict[str, Any] = json.loads(self._client("restore", submission, path, "--json"))
            return restored
        files = self._judge().restore(submission)
        regular_file.check_directory(self._workspace / SYSTEM)
        replace_system(self._workspace / SYSTEM, files)
        return {"restored": submission, "files": sorted(files)}

    def finish(self) -> str:
        """End the run with budget left; its best checkpoint is then scored."""
        self._judge().finish()
        return "The run is closed. Its submissions are validated and the best one is scored now."

    def _feedback_directory(self, submission: int) -> Path:
        return self._workspace / "feedback" / f"submit_{submission:03d}"

    def _client(self, *words: object) -> str:
        """Return what the workspace's client prints; raise ``ToolError`` with its message if it fails."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("EVOPOLICYGYM_")}
        done = subprocess.run(
            [sys.executable, str(CLIENT), *map(str, words)],
            env={**inherited, "EVOPOLICYGYM_WORKSPACE": str(self._workspace)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CLIENT_TIMEOUT_S,
            check=False,
        )
        printed, errors = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        if not printed:
            raise ToolError(errors.strip() or f"./judge {words[0]} failed with exit code {done.returncode}.")
        return _cut(printed)

    def _judge(self) -> JudgeClient:
        variables = read_addresses(self._workspace)
        if not variables:
            if (self._workspace / CLOSED_FILE).is_file():
                self._client("info")  # raises with the reason
            raise ToolError(f"No run is served in {self._workspace}: evopolicygym serve begins or resumes one.")
        relayed, feedback = RelayedJudge(variables), self._workspace / "feedback"
        if SOCKET in variables:
            address = relayed.serve(socket.create_server(("127.0.0.1", 0)))
            return JudgeClient(address, Event(), feedback)
        return JudgeClient(relayed.address, Event(), feedback)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n[{len(text) - MAX_TEXT} more characters]"


def _report_errors(call: Callable[Parameters, Any]) -> Callable[Parameters, Any]:
    """Return a tool that answers with an error's message, which an agent can read."""

    @wraps(call)
    def tool(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:  # noqa: ANN401 - the tool's own
        try:
            return call(*args, **kwargs)
        except (EvoPolicyGymError, OSError, subprocess.TimeoutExpired) as error:
            raise ToolError(str(error)) from error

    return tool


def check_workspace(directory: Path) -> Path:
    """Return a served run's workspace; raise ``UsageError`` for any other directory."""
    if not (directory / SYSTEM).is_dir():
        raise UsageError(
            f"{directory} is not the workspace of a run: it holds no system/. Name the one that evopolicygym serve "
            f"prints, or begin one with: evopolicygym serve TASK --workspace DIR."
        )
    return directory
