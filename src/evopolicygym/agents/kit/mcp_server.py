"""The judge of a served run as tools of the Model Context Protocol, over standard input and output or over HTTP.

Another process plays the run (``evopolicygym serve``), so the end of an editor or of this server loses nothing. Every
tool runs the client that agents have in their workspace, ``./judge``. It is given the judge's address from a file that
agents can't write, looked up at each call so that a resumed run is found again, and the workspace's directory.
"""

import json
import os
import secrets
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec

from mcp.server import MCPServer
from mcp.server.mcpserver import Image
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from pydantic import ConfigDict, create_model

from evopolicygym.agents.kit.outside_agent import read_addresses
from evopolicygym.core.beneath import open_directory
from evopolicygym.core.errors import EvoPolicyGymError
from evopolicygym.version import __version__

MAX_TEXT = 100_000
"""Characters that one call returns of a file or a table."""
CLIENT = Path(__file__).parents[2] / "runs" / "workspace_template" / "judge"
INFO_URL, WORKSPACE = "EVOPOLICYGYM_INFO_URL", "EVOPOLICYGYM_WORKSPACE"
"""Variables of the client: the judge's address, and the workspace's directory."""
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
        self._workspace, self._addresses = workspace, addresses

    def task(self) -> str:
        """Return the task as Markdown: the objective, observations, actions, reward and rules."""
        return self._client("task")

    def info(self) -> dict[str, Any]:
        """Return the remaining budget, the cases, the limits, and the path of the workspace."""
        return {**self._decoded("info"), "workspace": str(self._workspace)}

    def check(self, set: Settings | None = None) -> dict[str, Any]:  # noqa: A002 - the field's name
        """Construct the policy in its sandbox and have it act once, free of charge."""
        return self._decoded("check", *_set_words(set))

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
        words = [f"--key={key or secrets.token_hex(8)}", *_set_words(set)]
        words += [] if parent is None else [f"--parent={parent}"]
        words += [f"--expect={hypothesis}"] if hypothesis else []
        words += [f"--films={','.join(map(str, films))}"] if films else []
        answer = self._decoded("submit", *words, "--", cases)
        summary = answer["summary"]
        failed = {place for name in ("errors", "timeouts") for place in summary.get(name) or ()}
        return {
            "submission": answer["submit_id"],
            "status": summary["status"],
            "mean_return": summary.get("mean_return"),
            "returns": summary.get("returns") or [],
            "failed": sorted(failed),
            "remaining_budget": summary["remaining_budget"],
            "feedback": str(self._workspace / "feedback" / f"submit_{answer['submit_id']:03d}"),
        }

    def submissions(self) -> str:
        """Return a table of all submissions so far."""
        return self._client("list")

    def show(self, submission: int) -> str:
        """Return a table of a submission's episodes: case, return, length, and how each ended."""
        return self._client("show", "--", submission)

    def feedback(self, submission: int, file: str = "summary.json") -> str:
        """Return a file of a submission's feedback; the error for an unknown name has the names that exist."""
        return self._client("feedback", "--", submission, file)

    def compare(self, first: int, second: int) -> str:
        """Return returns and lengths of two submissions on the cases that both played, with the paired difference."""
        return self._client("compare", "--", first, second)

    def trace(self, episode: int, every: int = 1, fields: str = "t,obs,action,reward") -> str:
        """Return the steps of an episode as a table, every so many; fields may name parts, such as obs.0."""
        return self._client("trace", f"--every={every}", f"--fields={fields}", "--", episode)

    def export(self, episodes: list[int], to: str = "notes") -> dict[str, Any]:
        """Write episodes as npz files of observations, actions and rewards into a directory of the workspace."""
        return self._decoded("export", f"--to={to}", "--", *episodes)

    def diff(self, first: int, second: int | None = None) -> str:
        """Return what changed from one submission's policy to another's, or to system/ as it stands."""
        return self._client("diff", "--", first, *([] if second is None else [second]))

    def frames(self, episode: int, steps: str) -> list[Image]:
        """Return pictures of an episode at steps such as "0,50,100": of its film, or else of its observations."""
        shown = self._decoded("frames", "--to=-", "--", episode, steps)["frames"]
        return [Image(data=b64decode(shown[step]), format="png") for step in sorted(shown, key=int)]

    def restore(self, submission: int, path: str = "") -> dict[str, Any]:
        """Restore system/ as it was in a submission, and remove what else it holds; with a path, only what is there."""
        return self._decoded("restore", "--", submission, *([path] if path else []))

    def finish(self) -> str:
        """End the run with budget left; its best checkpoint is then scored."""
        self._client("finish")
        return "The run is closed. Its submissions are validated and the best one is scored now."

    def _decoded(self, verb: str, *words: object) -> dict[str, Any]:
        """Return the JSON object that a verb of the client prints."""
        answer: dict[str, Any] = json.loads(self._run_client(verb, "--json", *words))
        return answer

    def _client(self, *words: object) -> str:
        """Return the start of what the workspace's client prints."""
        text = self._run_client(*words)
        return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n[{len(text) - MAX_TEXT} more characters]"

    def _run_client(self, *words: object) -> str:
        """Return what the workspace's client prints; raise ``ToolError`` with its message if it fails."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("EVOPOLICYGYM_")}
        address = read_addresses(self._addresses) or {INFO_URL: ""}  # empty, so that no file of the workspace is read
        with open_directory(self._workspace) as directory:
            done = subprocess.run(
                [sys.executable, str(CLIENT), *map(str, words)],
                env={**inherited, **address, WORKSPACE: f"/proc/self/fd/{directory}"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                pass_fds=[directory],
            )
        printed, errors = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        if not printed:
            raise ToolError(errors.strip() or f"./judge {words[0]} failed with exit code {done.returncode}.")
        return printed


def _set_words(settings: Mapping[str, bool | float | str] | None) -> list[str]:
    """Return the client's words that set parameters."""
    if unnamed := [name for name in settings or {} if "=" in name]:
        raise ToolError(f"Invalid set: expected names of parameters, got {unnamed[0]!r}.")
    return [f"--set={name}={json.dumps(value)}" for name, value in (settings or {}).items()]


def _report_errors(call: Callable[Parameters, Any]) -> Callable[Parameters, Any]:
    """Return a tool that answers with an error's message, which an agent can read."""

    @wraps(call)
    def tool(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:  # noqa: ANN401 - the tool's own
        try:
            return call(*args, **kwargs)
        except (EvoPolicyGymError, OSError) as error:
            raise ToolError(str(error)) from error

    return tool
