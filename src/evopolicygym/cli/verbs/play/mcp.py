"""``evopolicygym mcp``: the judge as an MCP server, over standard input and output or over HTTP."""

import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from evopolicygym.agents.kit.outside_agent import find_judge
from evopolicygym.cli.options import complete_environment
from evopolicygym.cli.output import err
from evopolicygym.cli.play_options import with_flags
from evopolicygym.cli.verbs.play.serve import OPTIONS
from evopolicygym.core.agent import SYSTEM
from evopolicygym.core.directories import DEFAULT_RUNS
from evopolicygym.core.errors import AgentError, MissingExtra, UsageError
from evopolicygym.core.run import Stage
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.runs.workspace import run_of_workspace

EXAMPLES = """
Examples:

evopolicygym mcp acrobot --workspace work   (starts a run, or resumes the one that stopped there)

evopolicygym mcp work   (the run that evopolicygym serve plays in work)

evopolicygym mcp work --http 127.0.0.1:8765   (over HTTP; prints the address and the token's file)
"""
POLL_S = 0.1
LAST_LINES = 10
"""Lines of the log that an error message shows."""


@with_flags(OPTIONS)
def mcp(
    target: Annotated[
        str,
        typer.Argument(
            metavar="[WORKSPACE|TASK]",
            help="The workspace of a served run, or the environment of a new one. Default: the current directory.",
            autocompletion=complete_environment,
        ),
    ] = ".",
    workspace: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The workspace of the run of TASK. Default: a directory of the task's name."),
    ] = None,
    http: Annotated[str, typer.Option(metavar="HOST:PORT", help="Serve over HTTP; by default over stdio.")] = "",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A host name that requests may use besides that of --http."),
    ] = None,
    **flags: Any,  # noqa: ANN401 - one for each declared option
) -> None:
    """Offer the judge of a served run as MCP tools; with TASK, start or resume the run first.

    The run is played by a separate process (evopolicygym serve), which ends when the run is scored.
    """
    try:
        from evopolicygym.agents.kit.mcp_http import serve_tools
        from evopolicygym.agents.kit.mcp_server import judge_tools
    except ModuleNotFoundError as error:
        raise MissingExtra("evopolicygym mcp", "mcp", str(error.name)) from error
    runs = Path(flags.get("runs") or DEFAULT_RUNS)
    if workspace is None and Path(target).is_dir():
        if words := _format_flags({**flags, "runs": None}):
            raise UsageError(f"{words[0]} is an option of a new run, and {target} is a directory.")
        directory = Path(target).absolute()
        run = _find_run(directory, runs)
    else:
        directory = (workspace or Path(Path(target).stem.replace(":", "_"))).absolute()
        run = _serve_task(target, directory, runs, _format_flags(flags))
    if http:
        with serve_tools(directory, run.addresses, http, allow_host or ()) as served:
            _announce(served.url, served.token_file)
            served.server.wait()
    else:
        judge_tools(directory, run.addresses).run("stdio")


def _announce(url: str, file: Path) -> None:
    err().print(f"MCP over HTTP at {url}", soft_wrap=True)
    err().print(f"Header: Authorization: Bearer TOKEN, with the token in {file}", soft_wrap=True, markup=False)


def _format_flags(flags: Mapping[str, Any]) -> list[str]:
    """Return flags as command-line words."""
    flag_names = {option.name: option.flag for option in OPTIONS}
    words: list[str] = []
    for name, value in flags.items():
        for item in value if isinstance(value, list) else [value]:
            if item not in (None, ""):
                words += [flag_names[name], *([] if item is True else [str(item)])]
    return words


def _find_run(workspace: Path, runs: Path) -> RunPaths:
    """Return the run that has a workspace; raise ``UsageError`` if there is none."""
    if not (workspace / SYSTEM).is_dir():
        raise UsageError(
            f"{workspace} is not the workspace of a run: it holds no system/. Name the one that evopolicygym serve "
            f"prints, or begin one with: evopolicygym serve TASK --workspace DIR."
        )
    if run := run_of_workspace(workspace, runs):
        return run
    raise UsageError(f"No run below {runs} has the workspace {workspace}. Name the directory of its runs with --runs.")


def _serve_task(task: str, workspace: Path, runs: Path, words: Iterable[str]) -> RunPaths:
    """Start a process that serves a run in a workspace, unless it is served; it outlives this process.

    Raises ``AgentError`` with the last lines of its log if it ends before it serves.
    """
    run = run_of_workspace(workspace, runs)
    if run and read_run(run.root).state.stage is Stage.FINISHED:
        run = None
    if run and find_judge(run.addresses):
        return run
    arguments = ["--resume", str(run.root)] if run else [task, *words]
    log = workspace.with_name(f"{workspace.name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        serving = subprocess.Popen(
            [sys.executable, "-P", "-m", "evopolicygym", "serve", *arguments, "--workspace", str(workspace), "--quiet"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    while not (run := run_of_workspace(workspace, runs)) or not find_judge(run.addresses):
        if serving.poll() is not None:
            last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
            raise AgentError("No run could be served:\n" + "\n".join(last))
        time.sleep(POLL_S)
    return run
