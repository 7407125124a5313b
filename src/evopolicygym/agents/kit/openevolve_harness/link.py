"""Connects the library's process to the agent: questions for the model, and candidates to evaluate.

OpenEvolve uses this file as its evaluation file, and ``Client`` as its model. Candidates are sent on as text and never
run here. ``agents/builtin/openevolve.py`` answers.
"""

import json
import os
import socket
from pathlib import Path
from typing import Any

ADDRESS = "EVOPOLICYGYM_BENCH"
"""The environment variable with ``HOST:PORT:TOKEN``."""


def ask(kind: str, text: str = "") -> Any:  # noqa: ANN401 - depends on the kind
    """Send the agent a request, and wait for the answer without a time limit."""
    host, port, token = os.environ[ADDRESS].split(":")
    with socket.create_connection((host, int(port))) as connection, connection.makefile("rwb") as stream:
        stream.write(json.dumps({"token": token, "kind": kind, "text": text}).encode() + b"\n")
        stream.flush()
        return json.loads(stream.readline())


def evaluate(program_path: str) -> Any:  # noqa: ANN401 - the library is imported late
    """Return a candidate's value, and the description of its episodes for the model."""
    from openevolve.evaluation_result import EvaluationResult

    answer = ask("evaluate", Path(program_path).read_text(encoding="utf-8"))
    return EvaluationResult(metrics=answer["metrics"], artifacts=answer["artifacts"])


class Client:
    """The run's model, with the interface of OpenEvolve's models."""

    def __init__(self, config: Any) -> None:  # noqa: ANN401 - the library's
        self.model = config.name

    async def generate(self, prompt: str, **_: Any) -> str:  # noqa: ANN401 - the library's
        """Return the model's answer to a prompt."""
        return str(ask("model", prompt))

    async def generate_with_context(self, system_message: str, messages: list[dict[str, str]], **_: Any) -> str:  # noqa: ANN401 - the library's
        """Return the model's answer to messages, which are joined to one text."""
        return str(ask("model", "\n\n".join([system_message, *(message["content"] for message in messages)])))
