"""``evopolicygym mcp``: the judge of a served run as an MCP server on standard input and output."""

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.core.errors import MissingExtra

EXAMPLES = """
Examples:

evopolicygym serve acrobot --workspace work   (begins a run; then, for the agent in your editor:)

evopolicygym mcp work
"""


def mcp(
    workspace: Annotated[
        Path, typer.Argument(help="The workspace of a run that is served; by default the current directory.")
    ] = Path(),
) -> None:
    """Offer the judge of a served run as tools (task, info, submit, feedback, check, restore, finish) over stdio."""
    try:
        from evopolicygym.agents.kit.mcp_server import check_workspace, judge_tools
    except ModuleNotFoundError as error:
        raise MissingExtra("evopolicygym mcp", "mcp", str(error.name)) from error
    judge_tools(check_workspace(workspace.absolute())).run("stdio")
