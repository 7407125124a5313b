"""Descriptions of simulators: spaces, limit, names of actions and docstring, cached by their versions.

The simulator is asked in a separate process, on the Python that plays it: no other process of the package imports a
simulator for this. Run as a program, this module reads ``{"spec": …, "path": …}`` from standard input, and writes the
answer to the descriptor that its argument names.
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
from evopolicygym.core.errors import EnvironmentFault, EvoPolicyGymError, UnregisteredId, UsageError
from evopolicygym.core.places import data_directory, state_directory
from evopolicygym.core.spaces import to_schema
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.versions import versions
from evopolicygym.packs.installation import PACKAGE, InstalledPack, command, installed, packs_directory
from evopolicygym.sandbox.bwrap import SimulatorWalls, simulator_walls
from evopolicygym.sandbox.limits import bound_memory
from evopolicygym.version import __version__

PATIENCE_S = 120.0
"""Seconds until a simulator must have answered."""
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
    """The steps after which an episode is truncated; None where unknown."""
    action_meanings: tuple[str, ...]
    """Names of the values of a Discrete action; empty where there are none."""
    docstring: str
    """Docstring of its class; empty where it has none."""


def describe(
    spec: EnvironmentSpec, within: Sequence[str] = (), variables: Mapping[str, str] | None = None
) -> Description:
    """Return a simulator's description; raise ``UsageError`` or ``EnvironmentFault``.

    ``within`` is the command line of a sandbox to start it in; ``variables`` replace the environment variables.
    """
    reader, writer = os.pipe()
    with TemporaryDirectory() as place, TemporaryFile() as output, os.fdopen(reader, encoding="utf-8") as answer:
        line = [*within, *command(spec.pack, "evopolicygym.environments.description", str(writer))]
        variables = variables or {**os.environ, **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), place)}
        request = {"spec": asdict(spec), "path": [] if spec.pack else sys.path}
        process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=[writer],
            env=variables,
            cwd=place if spec.pack else None,  # some simulators write files to the working directory
        )
        os.close(writer)
        try:
            process.communicate(json.dumps(request).encode(), timeout=PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.wait()
            raise EnvironmentFault(f"{spec.id} could not be made within {PATIENCE_S:g} s.{_of_pack(spec)}") from error
        found = json.loads(answer.read() or "{}")
        if "description" not in found:
            output.seek(0)
            words = output.read().decode("utf-8", "replace").strip()[-ERROR_CHARACTERS:]
            ended = f"{spec.id} can't be made: its process ended with exit code {process.returncode}. {words}".strip()
            raise ERRORS[found.get("kind", FAULT)](f"{found.get('error') or ended}{_of_pack(spec)}")
    return Description(**{**found["description"], "action_meanings": tuple(found["description"]["action_meanings"])})


def _of_pack(spec: EnvironmentSpec) -> str:
    return f" It is a task of the pack {spec.pack!r}: evopolicygym packs check {spec.pack}." if spec.pack else ""


def describe_here(spec: EnvironmentSpec) -> Description:
    """Return the description of a simulator that is made in this process."""
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
    """Raise ``UsageError`` where a step of an environment of no pack returns a reward that is not a number."""
    if environment.spec.pack:  # packs are checked, and a first step may be compiled for a minute
        return
    simulator = environment.simulator
    simulator.action_space.seed(SEED)
    reward = simulator.step(simulator.action_space.sample())[1]
    try:
        float(reward)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"Invalid reward of {environment.spec.id}: expected a number, got {type(reward).__name__}. A wrapper that "
            f"returns a number makes an environment of several rewards or agents one that can be played."
        ) from error


def _main(descriptor: int) -> None:
    request = json.load(sys.stdin)
    sys.path[:] = request["path"] or sys.path
    fields = request["spec"]
    if fields["pack"]:
        bound_memory()
    known = {**fields, "kind": fields["kind"], "success": None}
    answer: dict[str, Any]
    try:
        answer = {"description": asdict(describe_here(EnvironmentSpec(**known)))}
    except EvoPolicyGymError as error:
        answer = {
            "error": str(error),
            "kind": next((name for name, kind in ERRORS.items() if isinstance(error, kind)), FAULT),
        }
    except Exception as error:  # noqa: BLE001 - whatever a simulator raises
        answer = {"error": f"{fields['id']} can't be made: {type(error).__name__}: {error}"}
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)
    os._exit(0)  # skips teardown, in which a simulator may crash


def cached_description(spec: EnvironmentSpec, own: InstalledPack | None) -> Description:
    """Return a simulator's description, from the cache where its versions are unchanged.

    ``own`` is the Python environment of the spec's pack, where it has one. Raises as ``describe`` does.
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
    """Return the command line that sandboxes a pack's simulator; empty where no sandbox is available."""
    words = pack_walls(pack, Path(gettempdir())).words
    return (words[0], "--die-with-parent", *words[1:]) if words else ()


def _cache_path(spec: EnvironmentSpec, own: InstalledPack | None) -> Path:
    depends = dict(own.versions) if own else versions(spec)
    identity = (__version__, spec.id, spec.imports, spec.arguments, depends)
    name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    directory = own.descriptions if own else data_directory() / "descriptions"
    return directory / f"{spec.name}-{name}.json"


def pack_walls(pack: str, writes_below: Path) -> SimulatorWalls:
    """Return the sandbox of a pack's simulator: packs, Pythons and our code are read-only, our state is hidden.

    Only ``writes_below`` is writable, wherever it lies.
    """
    own = installed(pack)
    base = (own.base,) if own else ()
    read_only = (packs_directory(), PACKAGE, Path(sys.prefix), Path(sys.base_prefix), *base)
    return simulator_walls(read_only, state_directory(), writes_below)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
