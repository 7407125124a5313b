"""The library's two ways out of its process: a question to the model, and a candidate to evaluate.

OpenEvolve takes this file as its evaluation file, and ``Client`` as its model. A candidate is read as text here and
sent on: it never runs on this side. ``agents/builtin/openevolve.py`` answers.
"""

import json
import os
import socket
from pathlib import Path
from typing import Any

ADDRESS = "EVOPOLICYGYM_BENCH"
"""The environment variable that holds host, port and token, with colons between."""


def ask(what: str, text: str = "") -> Any:  # noqa: ANN401 - what is asked decides
    """Ask the agent, and wait as long as it takes."""
    host, port, token = os.environ[ADDRESS].split(":")
    with socket.create_connection((host, int(port))) as connection, connection.makefile("rwb") as stream:
        stream.write(json.dumps({"token": token, "what": what, "text": text}).encode() + b"\n")
        stream.flush()
        return json.loads(stream.readline())


def evaluate(program_path: str) -> Any:  # noqa: ANN401 - the library is not needed to read this file
    """Return what came of a candidate: its value, and what the model is to know of it."""
    from openevolve.evaluation_result import EvaluationResult

    answer = ask("evaluate", Path(program_path).read_text(encoding="utf-8"))
    return EvaluationResult(metrics=answer["metrics"], artifacts=answer["artifacts"])


class Client:
    """The run's one model, as OpenEvolve asks a model."""

    def __init__(self, config: Any) -> None:  # noqa: ANN401 - the library's
        self.model = config.name

    async def generate(self, prompt: str, **_: Any) -> str:  # noqa: ANN401 - the library's
        """Return an answer to a question."""
        return str(ask("model", prompt))

    async def generate_with_context(self, system_message: str, messages: list[dict[str, str]], **_: Any) -> str:  # noqa: ANN401 - the library's
        """Return an answer to a question that stands in messages, as one text."""
        return str(ask("model", "\n\n".join([system_message, *(message["content"] for message in messages)])))
