"""Descriptions of simulators: spaces, limit, names of actions and docstring, cached by their versions.

The simulator is inspected in a separate process, on the Python that plays it, so that no other process imports it for
this. Run as a program, this module reads ``{"spec": …, "path": …}`` from standard input, and writes the answer to the
descriptor in its argument.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile, gettempdir
from typing import Any

from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.directories import data_directory, state_directory
from evopolicygym.core.errors import EnvironmentFault, EvoPolicyGymError, UnregisteredId, UsageError
from evopolicygym.core.spaces import to_schema
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.core.text import shell_word
from evopolicygym.environments.environment import Environment, as_number
from evopolicygym.environments.versions import versions
from evopolicygym.packs.installation import PACKAGE, InstalledPack, command, installed, packs_directory
from evopolicygym.sandbox.bwrap import SimulatorSandbox, simulator_sandbox_in
from evopolicygym.sandbox.limits import bound_memory
from evopolicygym.version import __version__

PATIENCE_S = 120.0
"""Seconds in which a simulator must answer."""
ERROR_CHARACTERS = 600
FAULT = "fault"
ERRORS: dict[str, type[EvoPolicyGymError]] = {
    "unregistered": UnregisteredId,
    "asked": UsageError,
    FAULT: EnvironmentFault,
}
"""Exception class for each error kind of an answer; the first that matches is sent."""
SEED = 0


@dataclass(frozen=True, slots=True)
class Description:
    """The spaces, limit and texts of a simulator."""

    observation_schema: Mapping[str, Any]
    action_schema: Mapping[str, Any]
    step_limit: int | None
    """The steps after which an episode is truncated; None if unknown."""
    action_meanings: tuple[str, ...]
    """Names of the values of a Discrete action; empty if there are none."""
    docstring: str
    """Docstring of its class; empty if it has none."""


def describe(
    spec: EnvironmentSpec, sandbox: Sequence[str] = (), variables: Mapping[str, str] | None = None
) -> Description:
    """Return a simulator's description; raise ``UsageError`` or ``EnvironmentFault``.

    ``sandbox`` is the command line of a sandbox to start it in; ``variables`` replace the environment variables.
    """
    reader, writer = os.pipe()
    with TemporaryDirectory() as directory, TemporaryFile() as output, os.fdopen(reader, encoding="utf-8") as answer:
        line = [*sandbox, *command(spec.pack, "evopolicygym.environments.description", str(writer))]
        variables = variables or {**os.environ, **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), directory)}
        request = {"spec": asdict(spec), "path": [] if spec.pack else sys.path}
        process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=[writer],
            env=variables,
            cwd=directory if spec.pack else None,  # some simulators write files to the working directory
        )
        os.close(writer)
        try:
            process.communicate(json.dumps(request).encode(), timeout=PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.wait()
            raise EnvironmentFault(
                f"{spec.id} could not be created within {PATIENCE_S:g} s.{_pack_hint(spec)}"
            ) from error
        reply = json.loads(answer.read() or "{}")
        if "description" not in reply:
            output.seek(0)
            words = output.read().decode("utf-8", "replace").strip()[-ERROR_CHARACTERS:]
            ended = (
                f"{spec.id} can't be created: its process ended with exit code {process.returncode}. {words}".strip()
            )
            raise ERRORS[reply.get("kind", FAULT)](f"{reply.get('error') or ended}{_pack_hint(spec)}")
    return Description(**{**reply["description"], "action_meanings": tuple(reply["description"]["action_meanings"])})


def _pack_hint(spec: EnvironmentSpec) -> str:
    return (
        f" It is a task of the pack {spec.pack!r}: evopolicygym packs check {shell_word(spec.pack)}."
        if spec.pack
        else ""
    )


def describe_here(spec: EnvironmentSpec) -> Description:
    """Return the description of a simulator that is created in this process."""
    environment = Environment(spec)
    try:
        environment.reset(SEED)
        _check_reward(environment)
        return Description(
            to_schema(environment.observation_space),
            to_schema(environment.action_space),
            environment.step_limit,
            environment.action_meanings,
            environment.docstring,
        )
    finally:
        environment.close()


def _check_reward(environment: Environment) -> None:
    """Raise ``UsageError`` if an environment without a pack returns a reward that is not a number."""
    if environment.spec.pack:  # packs are checked elsewhere, and compiling a first step may take a minute
        return
    simulator = environment.simulator
    simulator.action_space.seed(SEED)
    reward = simulator.step(simulator.action_space.sample())[1]
    try:
        as_number(reward)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"Invalid reward of {environment.spec.id}: expected a number, got {type(reward).__name__}. To "
            f"play an environment of several rewards or agents, wrap it so that it returns a number."
        ) from error


def _main(descriptor: int) -> None:
    request = json.load(sys.stdin)
    sys.path[:] = request["path"] or sys.path
    fields = request["spec"]
    if fields["pack"]:
        bound_memory()
    known_fields = {**fields, "kind": fields["kind"], "success": None}
    answer: dict[str, Any]
    try:
        answer = {"description": asdict(describe_here(EnvironmentSpec(**known_fields)))}
    except EvoPolicyGymError as error:
        answer = {
            "error": str(error),
            "kind": next((name for name, kind in ERRORS.items() if isinstance(error, kind)), FAULT),
        }
    except Exception as error:  # noqa: BLE001 - whatever a simulator raises
        answer = {"error": f"{fields['id']} can't be created: {type(error).__name__}: {error}"}
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)
    os._exit(0)  # skips teardown, in which a simulator may crash


def cached_description(spec: EnvironmentSpec, own: InstalledPack | None) -> Description:
    """Return a simulator's description, from the cache if its versions are unchanged.

    ``own`` is the Python environment of the spec's pack, if it has one. Raises the errors of ``describe``.
    """
    path = _cache_path(spec, own)
    with suppress(OSError, Undecodable):
        return decoder(Description).json(path.read_bytes())
    description = describe(spec, _sandbox_command(spec.pack) if own else ())
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(asdict(description)), encoding="utf-8")
        partial.rename(path)
    return description


def _sandbox_command(pack: str) -> tuple[str, ...]:
    """Return the command line that sandboxes a pack's simulator; empty if no sandbox is available."""
    words = pack_sandbox(pack, Path(gettempdir())).words
    return (words[0], "--die-with-parent", *words[1:]) if words else ()


def _cache_path(spec: EnvironmentSpec, own: InstalledPack | None) -> Path:
    depends = dict(own.versions) if own else versions(spec)
    identity = (__version__, spec.id, spec.imports, spec.arguments, depends)
    name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    directory = own.descriptions if own else data_directory() / "descriptions"
    return directory / f"{spec.name}-{name}.json"


def pack_sandbox(pack: str, writes_below: Path) -> SimulatorSandbox:
    """Return the sandbox of a pack's simulator: packs, Pythons and this package are read-only, our state is hidden.

    Only ``writes_below`` is writable.
    """
    own = installed(pack)
    base = (own.base,) if own else ()
    read_only = (packs_directory(), PACKAGE, Path(sys.prefix), Path(sys.base_prefix), *base)
    return simulator_sandbox_in(read_only, state_directory(), writes_below)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
