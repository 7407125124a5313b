"""The agent that has the library OpenEvolve evolve a policy's source: islands of programs that a model rewrites.

The library sets signal handlers, logging and process pools of its own, so it has a process of its own, which can ask
this one two things and holds no key. ``openevolve_harness/`` sets it up, ``model_search.py`` gives it its context.
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
from evopolicygym.agents.kit.model_search import ModelSearchAgent, SearchContext, SearchCrashed, make_model_search, mean
from evopolicygym.agents.kit.openevolve_harness.link import ADDRESS
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
"""A candidate's: some thirty candidates of 128 episodes, as a population wants many more than it needs them exact."""
LOOK_S = 0.1
SPEAK_S = 30.0
"""The longest that a question of the library's process takes to come."""
MOST_BYTES = 16 << 20
LAST_LINES = 5


def make(config: AgentConfig) -> ModelSearchAgent:
    """Return the agent; raise ``UsageError`` or ``MissingExtra``."""
    return make_model_search(config, search, EPISODES)


def search(context: SearchContext) -> None:
    """Have OpenEvolve search until its context ends it; raise ``SearchCrashed`` where it breaks."""
    token = secrets.token_hex(16)
    last: deque[str] = deque(maxlen=LAST_LINES)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LOOK_S)
        host, port = listener.getsockname()
        with _started(context, f"{host}:{port}:{token}", last) as library:
            while library.process.poll() is None:
                context.pause(0.0)
                _serve(context, listener, token)
            code = library.process.returncode
    if code:
        raise SearchCrashed(f"OpenEvolve ended with exit code {code}: {' '.join(last)[-300:] or 'it printed nothing'}")


@contextmanager
def _started(context: SearchContext, address: str, last: deque[str]) -> Iterator[StartedProgram]:
    """Start the library's process; nothing of it is left when this is."""
    home = context.workspace.home
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    # No other variable of ours gets there: one of them holds the model's key.
    places = {ADDRESS: address, "TMPDIR": str(home / "tmp"), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    command = (sys.executable, "-P", "-m", "evopolicygym.agents.kit.openevolve_harness")
    try:
        library = plain(command, context.workspace.directory, places, AgentLimits(), home)
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
    """Answer one question, if one comes; raise what ends the search."""
    try:
        connection, _ = listener.accept()
    except TimeoutError:
        return
    with connection, connection.makefile("rwb") as stream:
        connection.settimeout(SPEAK_S)
        try:
            question = strict_json.decode(stream.readline(MOST_BYTES))
            known = secrets.compare_digest(str(question["token"]).encode(), token.encode())
        except (OSError, ValueError, KeyError, TypeError):
            return
        if not known:
            return
        answer = json.dumps(_answer(context, str(question["what"]), str(question["text"])))
        try:
            stream.write(answer.encode() + b"\n")
            stream.flush()
        except OSError:
            return


def _answer(context: SearchContext, what: str, text: str) -> Any:  # noqa: ANN401 - what is asked decides
    if what == "model":
        return context.ask(text)
    if what == "evaluate":
        outcomes = context.play(text, context.cases)
        texts = "\n".join(outcome.text for outcome in outcomes)
        return {"metrics": {"combined_score": mean(outcomes)}, "artifacts": {"episodes": texts}}
    directory = context.workspace.home / "openevolve"
    starter = context.evaluator.starter
    return {"seed": context.workspace.seed, "brief": context.brief, "starter": starter, "directory": str(directory)}
