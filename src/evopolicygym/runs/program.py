"""Which program an agent is: a hash of its files or its source, so that two versions of it can be distinguished."""

import hashlib
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from evopolicygym.agents.base import AGENTS
from evopolicygym.agents.kit.function_agent import FunctionAgent
from evopolicygym.core.agent import Agent, AgentConfig
from evopolicygym.core.errors import UsageError
from evopolicygym.core.run import RunState
from evopolicygym.sandbox.program.view import modules_beside

MOST_FILES, MOST_BYTES = 10_000, 256 << 20
"""What is read of a command's files and directories; a larger program has no hash."""


def sha256_of(config: AgentConfig, agent: Agent) -> str:
    """Return the hash of what an agent is; empty where it comes with this package, or its source is not known."""
    if isinstance(agent, FunctionAgent):
        return _source_sha256(agent.function)
    if ":" in config.name:
        return _source_sha256(inspect.getmodule(AGENTS.load(config.name)))
    return program_sha256(config.command)


def changed_program(root: Path, state: RunState, agent: Agent, *, allowed: bool) -> str:
    """Return the hash of an agent's program where it isn't the one that the run was played with; else an empty text.

    Raises ``UsageError`` where it isn't, and that is not ``allowed``.
    """
    config, here = state.opened.agent, sha256_of(state.opened.agent, agent)
    if not state.program_sha256 or here == state.program_sha256:
        return ""
    if here and allowed:
        return here
    gone = [word for word in config.command if Path(word).is_absolute() and not Path(word).exists()]
    if gone:
        raise UsageError(f"The agent's program is missing: {gone[0]} does not exist. Put it back, then resume the run.")
    if not here:
        raise UsageError(
            f"The source of the agent {config.entry!r} can't be read, so it can't be compared with the one that the "
            f"run began with. Give the agent from a file."
        )
    raise UsageError(
        f"The program of the agent {config.entry!r} is not the one that the run was played with: its SHA-256 was "
        f"{state.program_sha256[:12]}…, it is {here[:12]}…. Put the old one back, or continue with the new one, which "
        f"the record will show: evopolicygym resume {quote(str(root))} --allow-changed-program"
    )


def program_sha256(command: Sequence[str]) -> str:
    """Return the SHA-256 of the files that a command names by absolute path, and of those in directories that it names.

    What its scripts import from beside them is part of it.

    Empty where it names none, where they are too many or too large, or where one can't be read.
    """
    whole = hashlib.sha256()
    try:
        named = [Path(word) for word in command if Path(word).is_absolute()]
        files = [file for root in (*named, *modules_beside(command)) for file in _files(root)]
        if not files or len(files) > MOST_FILES or sum(path.stat().st_size for _, path in files) > MOST_BYTES:
            return ""
        for place, path in files:
            content = path.read_bytes()
            whole.update(f"{place}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content)
    except OSError:
        return ""
    return whole.hexdigest()


def _source_sha256(source: object) -> str:
    """Return the hash of a function's or a module's source; empty where Python knows none, as at a prompt."""
    try:
        return hashlib.sha256(inspect.getsource(source).encode()).hexdigest()  # type: ignore[arg-type] # or TypeError
    except (OSError, TypeError):
        return ""


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield files in order, each with its place below the one that was named; not what Python compiled of them."""
    if root.is_file():
        yield root.name, root
    for path in sorted(root.rglob("*")) if root.is_dir() else ():
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(root).as_posix(), path
