"""The agent ``openevolve``: the library OpenEvolve evolves a policy's source, on islands of programs.

The library sets signal handlers, logging and process pools, so it runs in a separate process, which has no key and can
only send this process questions for the model and candidates to evaluate. ``openevolve_harness/`` is that process.
"""

import json
import os
import secrets
import socket
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import IO, Any

from evopolicygym.agents.base import About, Model
from evopolicygym.agents.kit.model_search import (
    ModelSearchAgent,
    SearchContext,
    SearchCrashed,
    SearchKilled,
    make_model_search,
    mean,
)
from evopolicygym.agents.kit.openevolve_harness.link import ADDRESS
from evopolicygym.agents.kit.program import killed_message
from evopolicygym.core import strict_json
from evopolicygym.core.agent import AgentConfig, AgentLimits
from evopolicygym.core.errors import AgentError, SandboxError
from evopolicygym.sandbox.program.plain import plain
from evopolicygym.sandbox.program.started import StartedProgram

ABOUT = About(
    "the library OpenEvolve: islands of programs",
    Model.NEEDED,
    extra="openevolve",
    imports=("openevolve", "httpx2"),
)
EPISODES = 4
"""Episodes for each candidate: about thirty candidates from 128 episodes, since a population needs many rather than
precise ones."""
LOOK_S = 0.1
SPEAK_S = 30.0
"""Seconds within which a request of the library's process must arrive."""
MOST_BYTES = 16 << 20
LAST_LINES = 5


def make(config: AgentConfig) -> ModelSearchAgent:
    """Return the agent; raise ``UsageError`` or ``MissingExtra``."""
    return make_model_search(config, search, EPISODES)


def search(context: SearchContext) -> None:
    """Let OpenEvolve search until the context ends it; raise ``SearchCrashed`` or ``SearchKilled`` if it fails."""
    token = secrets.token_hex(16)
    last: deque[str] = deque(maxlen=LAST_LINES)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LOOK_S)
        host, port = listener.getsockname()
        with _library_process(context, f"{host}:{port}:{token}", last) as library:
            while library.process.poll() is None:
                context.pause(0.0)
                _serve(context, listener, token)
            code = library.process.returncode
    if killed := killed_message(code):
        raise SearchKilled(killed)
    if code:
        raise SearchCrashed(f"OpenEvolve ended with exit code {code}: {' '.join(last)[-300:] or 'it printed nothing'}")


@contextmanager
def _library_process(context: SearchContext, address: str, last: deque[str]) -> Iterator[StartedProgram]:
    """Start the library's process, and terminate it at the end of the block."""
    home = context.workspace.home
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    # No other variables: one of them holds the model's key.
    variables = {ADDRESS: address, "TMPDIR": str(home / "tmp"), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    command = (sys.executable, "-P", "-m", "evopolicygym.agents.kit.openevolve_harness")
    try:
        library = plain(command, context.workspace.directory, variables, AgentLimits(), home)
    except SandboxError as error:
        raise AgentError(str(error)) from error
    output = library.process.stdout
    if output is None:
        raise AgentError("OpenEvolve was started without a pipe for its output.")
    thread = Thread(target=_copy, args=(output, context, last), name="openevolve", daemon=True)
    thread.start()
    try:
        yield library
    finally:
        library.terminate(0.0)
        thread.join(SPEAK_S)
        output.close()


def _copy(output: IO[bytes], context: SearchContext, last: deque[str]) -> None:
    for line in output:
        text = line.decode("utf-8", "replace").rstrip()
        last.append(text)
        context.transcript.write("library", text=text)


def _serve(context: SearchContext, listener: socket.socket, token: str) -> None:
    """Answer a request, if there is one; raise an error that ends the search."""
    try:
        connection, _ = listener.accept()
    except TimeoutError:
        return
    with connection, connection.makefile("rwb") as stream:
        connection.settimeout(SPEAK_S)
        try:
            request = strict_json.decode(stream.readline(MOST_BYTES))
            is_authorized = secrets.compare_digest(str(request["token"]).encode(), token.encode())
        except (OSError, ValueError, KeyError, TypeError):
            return
        if not is_authorized:
            return
        answer = json.dumps(_answer(context, str(request["kind"]), str(request["text"])))
        try:
            stream.write(answer.encode() + b"\n")
            stream.flush()
        except OSError:
            return


def _answer(context: SearchContext, kind: str, text: str) -> Any:  # noqa: ANN401 - depends on the kind
    if kind == "model":
        return context.ask(text)
    if kind == "evaluate":
        outcomes = context.play(text, context.cases)
        texts = "\n".join(outcome.text for outcome in outcomes)
        return {"metrics": {"combined_score": mean(outcomes)}, "artifacts": {"episodes": texts}}
    directory = context.workspace.home / "openevolve"
    starter = context.evaluator.starter
    return {"seed": context.workspace.seed, "brief": context.brief, "starter": starter, "directory": str(directory)}
