"""An agent's program in namespaces, with loopback only.

It reaches the judge and its model through endpoints: listening sockets that are created in the sandbox's network and
passed out, so that nothing of this package runs beside the program.
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
    kill_on_failure,
    stub_arguments,
    stub_orders,
)
from evopolicygym.sandbox.program.view import ACCOUNTS, python_of, search_path
from evopolicygym.sandbox.seccomp import agent_filter
from evopolicygym.sandbox.simulators import hidden_modules, names_of

MOST_PYTHONS = 64
"""Most Pythons in the sandbox that the preflight runs."""
MOST_NAMED = 8
"""Most files of the machine that a finding names."""


@dataclass(frozen=True, slots=True)
class EnclosedPrograms:
    """Starts programs in namespaces; a ``base.ProgramSandbox``."""

    @property
    def python(self) -> str:
        """The Python executable in the sandbox."""
        return "python3"

    def preflight(self, program: Program, hidden: Sequence[Path]) -> Mapping[str, str]:
        """Check a program's sandbox before it starts; return findings."""
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
    """Start a program in namespaces, with endpoints by their ports inside.

    ``home`` is a directory of this machine; None: a temporary home. ``simulators`` are modules, by name or path, that
    the program may not import, besides those hidden from all agents; ``packages`` are distributions for its policies.

    Raises ``SandboxError`` if the namespaces can't be created, or the program would have excess rights.
    """
    limits = fit_to_machine(limits)
    group = cgroup.make(limits.processes, limits.memory_mb)
    ours, theirs = socket.socketpair()
    info_read, info_write = os.pipe()
    modules, bytes_each = hidden_modules(simulators), limits.scratch_mb * MEBIBYTE
    sizes = (path for path in (*view.SCRATCH, view.SHARED_MEMORY) if home is None or path != view.HOME)
    orders = {**stub_orders(theirs, endpoints, resource_limits(limits), sizes), "first": True}
    inner = [_python(), *stub_arguments(orders), *command]
    user = sandbox_user(workspace)
    if user is not None:
        _hand_over(workspace, home, user)
    layers = _layers()
    try:
        with theirs, os.fdopen(info_read, "rb") as info:
            overlays = Overlays(layers) if layers else None
            mounts = [*view.words(workspace.absolute(), command, bytes_each, home, modules, packages, overlays)]
            try:
                words = ["--as-pid-1", "--info-fd", str(info_write), *mounts]
                process = _bwrap(user, words, inner, (theirs.fileno(), info_write), group)
            finally:
                os.close(info_write)
            theirs.close()
            with kill_on_failure(process):
                child = int(json.loads(info.read())["child-pid"])
                init = os.pidfd_open(child)
                findings = finish_handshake(
                    ours, list(endpoints.values()), lambda report: limit_findings(report, limits, group)
                )
        ours.settimeout(0.0)
        own = (workspace.absolute(), *((layers.directory,) if layers else ()))
        findings = {**findings, "user": users_finding(), "program's files": _files_finding(mounts, own)}
    except BaseException:
        ours.close()
        if layers:
            layers.close()
        if group:
            group.remove(GONE_S)
        raise
    if home is not None:
        size = f"{limits.scratch_mb} MiB and {limits.system_files} entries, looked at from outside"
        findings = {**findings, "home": size}
    watch = Watch(workspace, limits, None if group else ProcessGroup(first=f"/proc/{child}"), home)
    return StartedProgram(process, child, init, b"", watch, group, findings, layers, ours)


def preflight(
    command: Sequence[str],
    workspace: Path,
    hidden: Sequence[Path],
    simulators: Sequence[str] = (),
    packages: Sequence[str] = (),
) -> Mapping[str, str]:
    """Check a program's sandbox before it starts; return findings.

    Raises ``SandboxError`` if the sandbox can't be created, lacks the program, has a Python that can import a
    simulator, shows a path of ``hidden`` or the workspace's path on this machine, or has writable system files.
    """
    script = (files("evopolicygym.sandbox.program") / "inside" / "preflight.py").read_text(encoding="utf-8")
    paths = ":".join(str(path.absolute()) for path in (workspace, *hidden))
    python = python_of(command)
    modules = hidden_modules(simulators)
    trees = view.search_trees(command, modules)
    pythons = [*([python] if python else []), *(item for tree in trees.values() for item in tree.pythons)]
    names = names_of(modules)
    inner = [_python(), "-I", "-c", script, ",".join(names), paths, command[0], *pythons[:MOST_PYTHONS]]
    size = AgentLimits().scratch_mb * MEBIBYTE
    with contextlib.ExitStack() as stack:
        layers = _layers()
        overlays = Overlays(stack.enter_context(contextlib.closing(layers))) if layers else None
        mounts = [*view.words(workspace.absolute(), command, size, None, modules, packages, overlays)]
        process = stack.enter_context(_bwrap(sandbox_user(workspace), mounts, inner, (), None))
        output, _ = process.communicate()
    if process.returncode:
        message = output.decode("utf-8", "replace").strip()[-500:]
        raise SandboxError(f"The sandbox of the agent's program can't be created: {message or process.returncode}")
    report = json.loads(output)
    if not report["program"]:
        raise SandboxError(f"The agent's program {command[0]!r} can't be started: it is not found in the sandbox.")
    for program, name in report["simulators"]:
        raise SandboxError(f"The agent's {program} can import {name}, with which it could play uncounted episodes.")
    for path in report["paths"]:
        raise SandboxError(f"The agent could see {path}: name no directory above it in the command.")
    for path in report["writable"]:
        raise SandboxError(f"The agent could write to {path}: no safe sandbox can be created here.")
    return {
        "simulators": (
            f"none can be imported by {', '.join(report['pythons'])}; hidden, looked for by their names in "
            f"{', '.join(trees)}: {', '.join(names)}"
        ),
        "hidden": "neither the record nor the secrets can be seen",
    }


def _files_finding(mounts: Sequence[str], own: Sequence[Path]) -> str:
    """Return the finding on a program's files, given bwrap's arguments and the program's own directories."""
    shared = bound_in(mounts, own)
    names = [*shared[:MOST_NAMED], *([f"{len(shared) - MOST_NAMED} more"] if len(shared) > MOST_NAMED else ())]
    return files_finding("its pages the machine's", names)


def _layers() -> Layers | None:
    """Return new layers for a program's overlays; None if there can be no overlay."""
    return None if why_shared() else Layers()


def _hand_over(workspace: Path, home: Path | None, user: int) -> None:
    """Give a program's own directories to its user on the host, and make the rest of its workspace readable."""
    own = [path for name in (SYSTEM, NOTES) if (path := workspace / name).is_dir()]
    for path in (*own, *([] if home is None else [home])):
        change_owner(path, user)
    for path in (workspace, *workspace.iterdir()):
        if path not in own and not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))


def _bwrap(
    user: int | None, mounts: Iterable[str], inner: Sequence[str], inherited: Sequence[int], group: ControlGroup | None
) -> "subprocess.Popen[bytes]":
    """Start a command in a sandbox as a user of the host, given bwrap's arguments for its files."""
    with contextlib.ExitStack() as stack:

        def open_memory(data: bytes) -> int:
            descriptor = memory_file(data)
            stack.callback(os.close, descriptor)
            return descriptor

        kinds, needed = stack.enter_context(namespaces(user))
        texts = {f"/etc/{name}": text for name, text in ACCOUNTS.items()} | view.python_files()
        new_files = {path: open_memory(text.encode()) for path, text in texts.items()}
        masks = {path: open_memory(text.encode()) for path, text in view.machine_files().items()}
        words = [*_add_files(new_files), *mounts, *_mask_files(masks)]
        passed = [*inherited, *needed, *new_files.values(), *masks.values()]
        if rules := agent_filter():
            passed.append(open_memory(rules))
            words += ["--seccomp", str(passed[-1])]
        passed.append(open_memory(encode_arguments((*kinds, *words))))
        line = ["bwrap", "--args", str(passed[-1]), "--", *inner]  # by name: the sandbox must not show bwrap's path
        return subprocess.Popen(
            group.join_command(bwrap(), line) if group else line,
            executable=None if group else bwrap(),
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=passed,
        )


def _mask_files(descriptors: Mapping[str, int]) -> Iterator[str]:
    """Yield bwrap's arguments that replace existing files, by path, by the contents of descriptors."""
    for path, descriptor in descriptors.items():
        yield from ("--perms", "0444", "--ro-bind-data", str(descriptor), path)


def _add_files(descriptors: Mapping[str, int]) -> Iterator[str]:
    """Yield bwrap's arguments that add files, by path, with the contents of descriptors."""
    for directory in dict.fromkeys(str(parent) for path in descriptors for parent in reversed(Path(path).parents)):
        if directory != "/":
            yield from ("--perms", "0755", "--dir", directory)
    for path, descriptor in descriptors.items():
        yield from ("--perms", "0644", "--ro-bind-data", str(descriptor), path)


def _python() -> str:
    """Return the path of Python in the sandbox."""
    programs = (f"{directory}/python3" for directory in search_path())
    return next(program for program in programs if os.access(program, os.X_OK))
