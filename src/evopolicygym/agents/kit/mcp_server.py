"""The judge of a served run as tools of the Model Context Protocol, over standard input and output or over HTTP.

Another process plays the run (``evopolicygym serve``), so the end of an editor or of this server loses nothing. Tools
call the judge's client. It is given the judge's address from a file that agents can't write, looked up for each request
so that a resumed run is found again.
"""

import secrets
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec

from mcp.server import MCPServer
from mcp.server.mcpserver import Image
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from pydantic import ConfigDict, create_model

from evopolicygym.agents.kit.outside_agent import read_address_file
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.judge_client import tables
from evopolicygym.judge_client.address import address_in
from evopolicygym.judge_client.seat import CHANGED, NO_JUDGES_ANSWER, Seat, SeatErrors
from evopolicygym.judge_client.workspace_files import Workspace
from evopolicygym.version import __version__

MAX_TEXT = 100_000
"""Characters that one call returns of a file or a table."""
INSTRUCTIONS = """
You improve an executable policy: play it, read the results, edit it, until the episode budget is spent. Call `task`
first, then `info`. Edit the files in system/ of the workspace that `info` names, call `check`, then `submit`, and read
`feedback`. Every submitted episode costs one of the budget.
"""
Parameters = ParamSpec("Parameters")
Settings = dict[str, bool | int | float | str]


def judge_tools(workspace: Path, addresses: Path) -> MCPServer:
    """Return the server whose tools are the judge's calls, for the run that is served in a workspace.

    ``addresses`` is the file with the judge's address while the run is served.
    """
    tools = _Tools(workspace, addresses)
    calls: tuple[Callable[..., Any], ...] = (
        *(tools.task, tools.info, tools.check, tools.submit, tools.submissions, tools.show, tools.feedback),
        *(tools.compare, tools.trace, tools.export, tools.diff, tools.restore, tools.finish),
    )
    return MCPServer(
        "evopolicygym",
        instructions=INSTRUCTIONS.strip(),
        version=__version__,
        log_level="WARNING",
        tools=[*map(_strict_tool, calls), _strict_tool(tools.frames, structured_output=False)],
    )


def _strict_tool(call: Callable[..., Any], *, structured_output: bool | None = None) -> Tool:
    """Return a tool that refuses unknown arguments and converts none: a mistake would cost episodes."""
    tool = Tool.from_function(_report_errors(call), structured_output=structured_output)
    lenient = tool.fn_metadata.arg_model
    strict = create_model(lenient.__name__, __base__=lenient)
    strict.model_config = ConfigDict(**lenient.model_config, extra="forbid", strict=True)
    strict.model_rebuild(force=True)
    tool.fn_metadata.arg_model = strict
    tool.parameters = strict.model_json_schema(by_alias=True)
    return tool


class _Tools:
    def __init__(self, workspace: Path, addresses: Path) -> None:
        self._workspace = workspace
        self._seat = Seat(Workspace(str(workspace)), lambda: address_in(read_address_file(addresses)))

    def task(self) -> str:
        """Return the task as Markdown: the objective, observations, actions, reward and rules."""
        return self._seat.task()

    def info(self) -> dict[str, Any]:
        """Return the remaining budget, the cases, the limits, and the path of the workspace."""
        return {**self._seat.all_info(), "workspace": str(self._workspace)}

    def check(self, set: Settings | None = None) -> dict[str, Any]:  # noqa: A002 - the field's name
        """Construct the policy in its sandbox and have it act once, free of charge."""
        return self._seat.check(set)

    def submit(
        self,
        cases: str,
        key: str = "",
        set: Settings | None = None,  # noqa: A002 - as above
        parent: int | Literal["starter"] | None = None,
        hypothesis: str = "",
        films: list[int] | None = None,
    ) -> dict[str, Any]:
        """Play the policy in system/ on train cases such as "0-7,12", and return the results.

        Each episode costs one of the budget. The same key again returns the same submission and costs nothing. ``set``
        changes, for this submission, parameters that system/parameters.json declares. ``parent`` is the submission that
        the policy was made from, or "starter". ``hypothesis`` says what you expect. ``films`` are those of the cases
        that are filmed as well, if the run has films.
        """
        remarks = {"set": set, "parent": parent, "hypothesis": hypothesis, "films": films}
        number = self._seat.accept(cases, key or secrets.token_hex(8), **remarks)["submit_id"]
        summary = self._seat.wait(number)["summary"]
        failed = {index for name in ("errors", "timeouts") for index in summary.get(name) or ()}
        return {
            "submission": number,
            "status": summary["status"],
            "mean_return": summary.get("mean_return"),
            "returns": summary.get("returns") or [],
            "failed": sorted(failed),
            "remaining_budget": summary["remaining_budget"],
            "feedback": str(self._workspace / "feedback" / f"submit_{number:03d}"),
        }

    def submissions(self) -> str:
        """Return a table of all submissions so far."""
        return tables.submissions(self._seat.submissions())

    def show(self, submission: int) -> str:
        """Return a table of a submission's episodes: case, return, length, and how each ended."""
        return tables.submission(self._seat.submission(submission))

    def feedback(self, submission: int, file: str = "summary.json") -> str:
        """Return a file of a submission's feedback; the error for an unknown name has the names that exist."""
        return self._seat.feedback(submission, file)

    def compare(self, submissions: list[int]) -> str:
        """Return returns and lengths of submissions by case, and how each differs from the first, paired over cases."""
        return self._seat.compare(submissions)

    def trace(self, episode: int, every: int = 1, fields: str = "t,obs,action,reward") -> str:
        """Return the steps of an episode as a table, every so many; fields may name parts, such as obs.0."""
        return self._seat.trace(str(episode), every, fields)

    def export(self, episodes: list[int], to: str = "notes") -> dict[str, Any]:
        """Write episodes as npz files of observations, actions and rewards into a directory of the workspace."""
        return self._seat.export([*map(str, episodes)], to)

    def diff(self, first: int, second: int | None = None) -> str:
        """Return what changed from one submission's policy to another's, or to system/ as it stands."""
        return self._seat.diff(first, second)

    def frames(self, episode: int, steps: str) -> list[Image]:
        """Return pictures of an episode at steps such as "0,50,100": of its film, or else of its observations."""
        shown = self._seat.frames(str(episode), steps)
        return [Image(data=shown[step], format="png") for step in sorted(shown)]

    def restore(self, submission: int, path: str = "") -> dict[str, Any]:
        """Restore system/ as it was in a submission, and remove what else it holds; with a path, only what is there."""
        return self._seat.restore(submission, path)

    def finish(self) -> str:
        """End the run with budget left; its best checkpoint is then scored."""
        self._seat.finish()
        return "The run is closed. Its submissions are validated and the best one is scored now."


def _report_errors(call: Callable[Parameters, Any]) -> Callable[Parameters, Any]:
    """Return a tool that answers with the start of a text, or with an error's message, which an agent can read."""

    @wraps(call)
    def tool(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:  # noqa: ANN401 - the tool's own
        try:
            answer = call(*args, **kwargs)
        except (EvoPolicyGymError, *SeatErrors) as error:
            raise ToolError(str(error)) from error
        except CHANGED as error:
            raise ToolError(f"{NO_JUDGES_ANSWER} ({type(error).__name__})") from error
        if isinstance(answer, str) and len(answer) > MAX_TEXT:
            return f"{answer[:MAX_TEXT]}\n[{len(answer) - MAX_TEXT} more characters]"
        return answer

    return tool
