"""The judge of a served run as tools of the Model Context Protocol, for an agent that lives in an editor.

The run is played elsewhere (``evopolicygym serve``), so that neither the editor's end nor this server's loses anything.
Where it answers is looked up at each call: a resumed run is found again.
"""

import json
import secrets
import socket
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from threading import Event
from typing import Any, ParamSpec

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from evopolicygym.agents.kit.judge_client import JudgeClient, JudgeUnreachable, Remarks, replace_system
from evopolicygym.agents.kit.outside_agent import SOCKET, RelayedJudge, read_addresses
from evopolicygym.core.agent import SYSTEM
from evopolicygym.core.errors import EvoPolicyGymError, UsageError
from evopolicygym.core.score import estimate
from evopolicygym.version import __version__

LONGEST_FILE = 100_000
"""Characters of a feedback's file that one call returns."""
INSTRUCTIONS = """
You improve an executable policy by playing it, reading what came of it, and editing it, until the episode budget is
spent. Call `task` first, then `info`. Edit the files in system/ of the workspace that `info` names, call `check`, then
`submit`; read `feedback`. Every submitted episode costs one of the budget.
"""
Parameters = ParamSpec("Parameters")


def judge_tools(workspace: Path) -> MCPServer:
    """Return the server whose tools are the judge's calls, for the served run that works in a directory."""
    server = MCPServer(
        "evopolicygym",
        instructions=INSTRUCTIONS.strip(),
        version=__version__,
        log_level="WARNING",
    )
    tools = _Tools(workspace)
    for call in (tools.task, tools.info, tools.submit, tools.feedback, tools.check, tools.restore, tools.finish):
        server.tool()(_refusing(call))
    return server


class _Tools:
    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def task(self) -> str:
        """Say what the policy is to achieve, what it sees and does, and how it is called, as Markdown."""
        return self._judge().task()

    def info(self) -> dict[str, Any]:
        """Say how the run stands: the budget that is left, the cases, the limits, and where the workspace is."""
        return {**self._judge().all_info(), "workspace": str(self._workspace)}

    def submit(
        self,
        cases: str,
        key: str = "",
        set: dict[str, bool | float | str] | None = None,  # noqa: A002 - the field's name
        parent: int | None = None,
        hypothesis: str = "",
    ) -> dict[str, Any]:
        """Play the policy in system/ on train cases such as "0-7,12", and return what came of it.

        Each episode costs one of the budget. The same key again is the same submission, and costs nothing. ``set``
        gives parameters that system/parameters.json declares other values for this once; ``parent`` is the submission
        that the policy was made from (-1: the starter); ``hypothesis`` says what you expect of it.
        """
        key = key or secrets.token_hex(8)
        try:
            summary = self._judge().submit(cases, key, said=Remarks(set or {}, parent, hypothesis))
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
            "feedback": str(self._feedback(summary.submit_id)),
        }

    def feedback(self, submission: int, file: str = "summary.json") -> str:
        """Return a file of a submission's feedback; of another name than any, the names that there are."""
        below = self._feedback(submission)
        names = sorted(path.relative_to(below).as_posix() for path in below.rglob("*") if path.is_file())
        if not names:
            raise ToolError(f"There is no feedback of a submission {submission}.")
        if file not in names:
            return json.dumps({"files": names})
        text = (below / file).read_text(encoding="utf-8", errors="replace")
        return text if len(text) <= LONGEST_FILE else f"{text[:LONGEST_FILE]}\n[{len(text) - LONGEST_FILE} more]"

    def check(self, set: dict[str, bool | float | str] | None = None) -> dict[str, Any]:  # noqa: A002 - as above
        """Construct the policy in system/ and have it act once where it would play, free of charge."""
        return self._judge().check(set)

    def restore(self, submission: int) -> dict[str, Any]:
        """Have system/ hold again what a submission held, and nothing else; free of charge."""
        files = self._judge().restore(submission)
        replace_system(self._workspace / SYSTEM, files)
        return {"restored": submission, "files": sorted(files)}

    def finish(self) -> str:
        """End the run with budget left; its best checkpoint is scored then."""
        self._judge().finish()
        return "The run is closed, and scored now."

    def _feedback(self, submission: int) -> Path:
        return self._workspace / "feedback" / f"submit_{submission:03d}"

    def _judge(self) -> JudgeClient:
        variables = read_addresses(self._workspace)
        if not variables:
            raise ToolError(f"No run is served in {self._workspace}: evopolicygym serve begins or resumes one.")
        relayed, feedback = RelayedJudge(variables), self._workspace / "feedback"
        if SOCKET in variables:
            address = relayed.serve(socket.create_server(("127.0.0.1", 0)))
            return JudgeClient(address, Event(), feedback)
        return JudgeClient(relayed.address, Event(), feedback)


def _refusing(call: Callable[Parameters, Any]) -> Callable[Parameters, Any]:
    """Return a tool whose refusals are answers that an agent can read."""

    @wraps(call)
    def tool(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:  # noqa: ANN401 - the tool's own
        try:
            return call(*args, **kwargs)
        except (EvoPolicyGymError, OSError) as error:
            raise ToolError(str(error)) from error

    return tool


def check_workspace(directory: Path) -> Path:
    """Return a served run's workspace; raise ``UsageError`` where a directory is none."""
    if not (directory / SYSTEM).is_dir():
        raise UsageError(
            f"{directory} is not the workspace of a run: it holds no system/. Name the one that evopolicygym serve "
            f"prints, or begin one with: evopolicygym serve TASK --workspace DIR."
        )
    return directory
