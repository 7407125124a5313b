"""A tool made with the official package of the Agent Client Protocol: it submits a case, asks to be allowed, and ends.

It counts its sessions' prompts in its home, so that a session that is loaded goes on.
"""

import asyncio
import json
import subprocess
import sys
import urllib.request
from os import environ
from pathlib import Path
from typing import Any

from acp import (
    Agent,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    text_block,
    update_agent_message,
)
from acp.interfaces import Client
from acp.schema import AgentCapabilities, PermissionOption, ToolCallUpdate, Usage

KEPT = Path.home() / "session.json"


class Submitter(Agent):
    """Submits the next case at each prompt, if it is allowed to."""

    def on_connect(self, conn: Client) -> None:
        """Keep the client."""
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        """Say that sessions can be loaded."""
        capabilities = AgentCapabilities(load_session=True)
        return InitializeResponse(protocol_version=protocol_version, agent_capabilities=capabilities)

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        """Begin at the first case."""
        KEPT.write_text(json.dumps({"prompts": 0, "cwd": cwd}))
        return NewSessionResponse(session_id="session-1")

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> LoadSessionResponse:
        """Play back what was said, as the protocol wants it."""
        await self._client.session_update(session_id, update_agent_message(text_block(f"said before in {cwd}")))
        return LoadSessionResponse()

    async def prompt(self, session_id: str, **_: Any) -> PromptResponse:
        """Submit."""
        kept = json.loads(KEPT.read_text())
        call = ToolCallUpdate(tool_call_id="call-1", title="./judge submit")
        options = [
            PermissionOption(option_id="no", name="No", kind="reject_once"),
            PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
        ]
        answer = await self._client.request_permission(session_id=session_id, tool_call=call, options=options)
        if answer.outcome.outcome == "selected" and answer.outcome.option_id == "yes":
            ask()
            submit(kept["prompts"])
        KEPT.write_text(json.dumps({**kept, "prompts": kept["prompts"] + 1}))
        for word in ("Submitted ", str(kept["prompts"]), "."):
            await self._client.session_update(session_id, update_agent_message(text_block(word)))
        return PromptResponse(stop_reason="end_turn", usage=Usage(total_tokens=7, input_tokens=5, output_tokens=2))


def ask() -> None:
    """Ask the model once, as most tools do."""
    body = json.dumps({"model": environ["OPENAI_MODEL"], "messages": [{"role": "user", "content": "What now?"}]})
    headers = {"Authorization": "Bearer " + environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    request = urllib.request.Request(environ["OPENAI_BASE_URL"] + "/chat/completions", body.encode(), headers)  # noqa: S310 - the proxy's
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - as above
        if b'"error"' in answer.read():
            raise RuntimeError("the model failed")


def submit(case: int) -> None:
    """Submit a case."""
    subprocess.run(["./judge", "submit", str(case)], check=True, stdout=sys.stderr)


if __name__ == "__main__":
    asyncio.run(run_agent(Submitter()))
