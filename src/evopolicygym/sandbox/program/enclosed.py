"""An agent's program in namespaces of its own, with loopback only.

What it reaches beyond is reached through endpoints: listening sockets that are made inside the sandbox's network and
passed out, so nothing of this package runs beside the program. ``view.py`` lays out what it sees.
"""

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from evopolicygym.core.agent import NOTES, SYSTEM, AgentLimits
from evopolicygym.core.errors import SandboxError
from evopolicygym.sandbox import cgroup
from evopolicygym.sandbox.base import Program, Serve
from evopolicygym.sandbox.bwrap import (
    bwrap,
    change_owner,
    encode_arguments,
    memory_file,
    namespaces,
    sandbox_user,
    users_finding,
)
from evopolicygym.sandbox.cgroup import ControlGroup
from evopolicygym.sandbox.limits import MEBIBYTE, ProcessGroup, Watch, fit_to_machine, limit_findings, resource_limits
from evopolicygym.sandbox.overlays import Layers, Overlays, bound_in, files_finding, why_shared
from evopolicygym.sandbox.program import view
from evopolicygym.sandbox.program.started import (
    GONE_S,
    StartedProgram,
    finish_handshake,
    killed_on_failure,
    stub_arguments,
    stub_orders,
)
from evopolicygym.sandbox.program.view import ACCOUNTS, python_of, search_path
from evopolicygym.sandbox.seccomp import agent_filter
from evopolicygym.sandbox.simulators import hidden_modules, names_of

MOST_PYTHONS = 64
"""How many Pythons are tried, of those that a program can see."""
MOST_NAMED = 8
"""How many files of the machine that a program sees are named in its finding."""


@dataclass(frozen=True, slots=True)
class EnclosedPrograms:
    """Starts programs in namespaces, as ``base.ProgramSandbox`` has it."""

    @property
    def python(self) -> str:
        """How a command calls a Python inside."""
        return "python3"

    def preflight(self, program: Program, hidden: Sequence[Path]) -> Mapping[str, str]:
        """Look around before a program does; return what was found."""
        return preflight(program.command, program.workspace, hidden, program.simulators, program.packages)

    def start(self, program: Program, endpoints: Mapping[int, Serve]) -> StartedProgram:
        """Start a program, with endpoints by their ports inside."""
        return enclosed(
            program.command,
            program.workspace,
            endpoints,
            program.limits,
            program.home,
            program.simulators,
            program.packages,
        )


def enclosed(
    command: Sequence[str],
    workspace: Path,
    endpoints: Mapping[int, Serve],
    limits: AgentLimits,
    home: Path | None = None,
    simulators: Sequence[str] = (),
    packages: Sequence[str] = (),
) -> StartedProgram:
    """Start a program in namespaces of its own, with endpoints by their ports inside.

    Its home is a directory of this machine where one is given, and else gone with the program. ``simulators`` are
    modules that it may not import besides those that nobody may, by their names or paths, ``packages`` distributions
    that its policies may.

    Raises ``SandboxError`` where the namespaces can't be made, or don't hold what they should.
    """
    limits = fit_to_machine(limits)
    group = cgroup.make(limits.processes, limits.memory_mb)
    ours, theirs = socket.socketpair()
    information, informed = os.pipe()
    modules, bytes_each = hidden_modules(simulators), limits.scratch_mb * MEBIBYTE
    sizes = (place for place in (*view.SCRATCH, view.SHARED_MEMORY) if home is None or place != view.HOME)
    inner = [_python(), *stub_arguments(stub_orders(theirs, endpoints, resource_limits(limits), sizes)), *command]
    user = sandbox_user(workspace)
    if user is not None:
        _hand_over(workspace, home, user)
    layers = _layers()
    try:
        with ours, theirs, os.fdopen(information, "rb") as said:
            overlays = Overlays(layers) if layers else None
            seen = [*view.words(workspace.absolute(), command, bytes_each, home, modules, packages, overlays)]
            try:
                process = _bwrap(user, ["--info-fd", str(informed), *seen], inner, (theirs.fileno(), informed), group)
            finally:
                os.close(informed)
            theirs.close()
            with killed_on_failure(process):
                child = int(json.loads(said.read())["child-pid"])
                init = os.pidfd_open(child)
                held = finish_handshake(
                    ours, list(endpoints.values()), lambda found: limit_findings(found, limits, group)
                )
        own = (workspace.absolute(), *((layers.directory,) if layers else ()))
        held = {**held, "user": users_finding(), "program's files": _files_finding(seen, own)}
    except BaseException:
        if layers:
            layers.close()
        if group:
            group.remove(GONE_S)
        raise
    if home is not None:
        held = {**held, "home": f"{limits.scratch_mb} MiB and {limits.system_files} entries, looked at from outside"}
    watch = Watch(workspace, limits, None if group else ProcessGroup(first=f"/proc/{child}"), home)
    return StartedProgram(process, child, init, b"", watch, group, held, layers)


def preflight(
    command: Sequence[str],
    workspace: Path,
    hidden: Sequence[Path],
    simulators: Sequence[str] = (),
    packages: Sequence[str] = (),
) -> Mapping[str, str]:
    """Look around a workplace before its program does; return what was found.

    Raises ``SandboxError`` where the program isn't in it, where a Python in it can import what it must not, where a
    path of ``hidden`` or the workspace's own place on this machine can be seen, where the system can be written to, or
    where no workplace can be made.
    """
    script = (files("evopolicygym.sandbox.program") / "inside" / "preflight.py").read_text(encoding="utf-8")
    paths = ":".join(str(path.absolute()) for path in (workspace, *hidden))
    python = python_of(command)
    modules = hidden_modules(simulators)
    searched = view.searched(command, modules)
    pythons = [*([python] if python else []), *(item for found in searched.values() for item in found.pythons)]
    names = names_of(modules)
    inner = [_python(), "-I", "-c", script, ",".join(names), paths, command[0], *pythons[:MOST_PYTHONS]]
    size = AgentLimits().scratch_mb * MEBIBYTE
    with contextlib.ExitStack() as stack:
        layers = _layers()
        overlays = Overlays(stack.enter_context(contextlib.closing(layers))) if layers else None
        seen = [*view.words(workspace.absolute(), command, size, None, modules, packages, overlays)]
        process = stack.enter_context(_bwrap(sandbox_user(workspace), seen, inner, (), None))
        output, _ = process.communicate()
    if process.returncode:
        said = output.decode("utf-8", "replace").strip()[-500:]
        raise SandboxError(f"No workplace can be made for the agent's program: {said or process.returncode}")
    found = json.loads(output)
    if not found["program"]:
        raise SandboxError(f"The agent's program {command[0]!r} can't be started: it is not found in the sandbox.")
    for program, name in found["simulators"]:
        raise SandboxError(f"The agent's {program} can import {name}: what nobody counts could be played with it.")
    for path in found["paths"]:
        raise SandboxError(f"The agent could see {path}: name no directory above it in the command.")
    for path in found["writable"]:
        raise SandboxError(f"The agent could write to {path}: a workplace like that can't be made safely here.")
    return {
        "simulators": (
            f"none can be imported by {', '.join(found['pythons'])}; hidden, looked for by their names in "
            f"{', '.join(searched)}: {', '.join(names)}"
        ),
        "hidden": "neither the record nor the secrets can be seen",
    }


def _files_finding(seen: Sequence[str], own: Sequence[Path]) -> str:
    """Return in words whose files a program sees, from the words that lay them out and what is its own of them."""
    shared = bound_in(seen, own)
    named = [*shared[:MOST_NAMED], *([f"{len(shared) - MOST_NAMED} more"] if len(shared) > MOST_NAMED else ())]
    return files_finding("its pages the machine's", named)


def _layers() -> Layers | None:
    """Return a new directory for the layers of a program's overlays; None where there can be no overlay."""
    return None if why_shared() else Layers()


def _hand_over(workspace: Path, home: Path | None, user: int) -> None:
    """Make a program's own directories those of its user on the host, and the rest of its workspace readable to it."""
    own = [place for name in (SYSTEM, NOTES) if (place := workspace / name).is_dir()]
    for place in (*own, *([] if home is None else [home])):
        change_owner(place, user)
    for place in (workspace, *workspace.iterdir()):
        if place not in own and not place.is_symlink():
            place.chmod(place.stat().st_mode | (0o555 if place.is_dir() else 0o444))


def _bwrap(
    user: int | None, seen: Iterable[str], inner: Sequence[str], inherited: Sequence[int], group: ControlGroup | None
) -> "subprocess.Popen[bytes]":
    """Start a command line of this package as a user of the host, in the view that these words lay out."""
    with contextlib.ExitStack() as stack:

        def kept(data: bytes) -> int:
            descriptor = memory_file(data)
            stack.callback(os.close, descriptor)
            return descriptor

        kinds, needed = stack.enter_context(namespaces(user))
        texts = {f"/etc/{name}": text for name, text in ACCOUNTS.items()} | view.python_files()
        written = {path: kept(text.encode()) for path, text in texts.items()}
        masks = {path: kept(text.encode()) for path, text in view.machine_files().items()}
        laid = [*_written(written), *seen, *_masked(masks)]
        passed = [*inherited, *needed, *written.values(), *masks.values()]
        if rules := agent_filter():
            passed.append(kept(rules))
            laid += ["--seccomp", str(passed[-1])]
        passed.append(kept(encode_arguments((*kinds, *laid))))
        line = ["bwrap", "--args", str(passed[-1]), "--", *inner]  # by name: where it lies isn't shown inside
        return subprocess.Popen(
            group.joined_by(bwrap(), line) if group else line,
            executable=None if group else bwrap(),
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=passed,
        )


def _masked(descriptors: Mapping[str, int]) -> Iterator[str]:
    """Yield the words that show other contents in place of files that are there."""
    for path, descriptor in descriptors.items():
        yield from ("--perms", "0444", "--ro-bind-data", str(descriptor), path)


def _written(descriptors: Mapping[str, int]) -> Iterator[str]:
    """Yield the words for files whose contents can be read from descriptors, by their paths inside."""
    for directory in dict.fromkeys(str(parent) for path in descriptors for parent in reversed(Path(path).parents)):
        if directory != "/":
            yield from ("--perms", "0755", "--dir", directory)
    for path, descriptor in descriptors.items():
        yield from ("--perms", "0644", "--ro-bind-data", str(descriptor), path)


def _python() -> str:
    """Return the Python inside by its path there."""
    places = (f"{place}/python3" for place in search_path())
    return next(program for program in places if os.access(program, os.X_OK))
