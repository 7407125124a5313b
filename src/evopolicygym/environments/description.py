"""What a simulator says of itself: its spaces, its limit, names, and its own docstring.

It is asked in a process of its own, on the Python that plays it: nothing else of ours ever imports a simulator. Run as
a program, this module reads ``{"spec": …, "path": …}`` from standard input, and writes the answer to the descriptor
that its argument names.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

from evopolicygym.core.errors import EnvironmentFault, EvoPolicyGymError, UnregisteredId, UsageError
from evopolicygym.core.spaces import to_schema
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.environment import Environment
from evopolicygym.packs.interpreter import command
from evopolicygym.sandbox.confinement.own_memory import bound_memory

PATIENCE_S = 120.0
"""Seconds that a simulator has to say what it is."""
LAST_WORDS = 600
FAULT = "fault"
KINDS: dict[str, type[EvoPolicyGymError]] = {
    "unregistered": UnregisteredId,
    "asked": UsageError,
    FAULT: EnvironmentFault,
}
"""What may be raised for the answer, by the word that stands for it; the first that fits is the one."""
SEED = 0


@dataclass(frozen=True, slots=True)
class Description:
    """What a simulator says of itself."""

    observation_schema: Mapping[str, Any]
    action_schema: Mapping[str, Any]
    step_limit: int | None
    """The steps after which an episode is truncated; None where it doesn't say."""
    action_meanings: tuple[str, ...]
    """Its names for the values of a Discrete action; empty where it has none."""
    docstring: str
    """Of its class; empty where it has none of its own."""


def describe(
    spec: EnvironmentSpec, within: Sequence[str] = (), variables: Mapping[str, str] | None = None
) -> Description:
    """Return what the simulator of a spec says of itself; raise ``UsageError`` or ``EnvironmentFault``.

    It may be asked ``within`` walls, a command that starts another, and with other environment variables.
    """
    ours, theirs = os.pipe()
    with TemporaryDirectory() as place, TemporaryFile() as said, os.fdopen(ours, encoding="utf-8") as answer:
        line = [*within, *command(spec.pack, "evopolicygym.environments.description", str(theirs))]
        variables = variables or {**os.environ, **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), place)}
        request = {"spec": asdict(spec), "path": [] if spec.pack else sys.path}
        process = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=said, stderr=said, pass_fds=[theirs], env=variables
        )
        os.close(theirs)
        try:
            process.communicate(json.dumps(request).encode(), timeout=PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.wait()
            raise EnvironmentFault(f"{spec.id} could not be made within {PATIENCE_S:g} s.{_of_pack(spec)}") from error
        found = json.loads(answer.read() or "{}")
        if "description" not in found:
            said.seek(0)
            words = said.read().decode("utf-8", "replace").strip()[-LAST_WORDS:]
            ended = f"{spec.id} can't be made: its process ended with exit code {process.returncode}. {words}".strip()
            raise KINDS[found.get("kind", FAULT)](f"{found.get('error') or ended}{_of_pack(spec)}")
    return Description(**{**found["description"], "action_meanings": tuple(found["description"]["action_meanings"])})


def _of_pack(spec: EnvironmentSpec) -> str:
    return f" It is a task of the pack {spec.pack!r}: evopolicygym packs check {spec.pack}." if spec.pack else ""


def described(spec: EnvironmentSpec) -> Description:
    """Return what a simulator says of itself, which is made in this very process."""
    environment = Environment(spec)
    try:
        environment.reset(SEED)
        return Description(
            to_schema(environment.observation_space),
            to_schema(environment.action_space),
            environment.step_limit,
            environment.action_meanings,
            environment.docstring,
        )
    finally:
        environment.close()


def _main(descriptor: int) -> None:
    asked = json.load(sys.stdin)
    sys.path[:] = asked["path"] or sys.path
    fields = asked["spec"]
    if fields["pack"]:
        bound_memory()
    known = {**fields, "kind": fields["kind"], "success": None}
    answer: dict[str, Any]
    try:
        answer = {"description": asdict(described(EnvironmentSpec(**known)))}
    except EvoPolicyGymError as error:
        answer = {
            "error": str(error),
            "kind": next((name for name, one in KINDS.items() if isinstance(error, one)), FAULT),
        }
    except Exception as error:  # noqa: BLE001 - whatever a simulator raises
        answer = {"error": f"{fields['id']} can't be made: {type(error).__name__}: {error}"}
    with os.fdopen(descriptor, "w", encoding="utf-8") as saying:
        json.dump(answer, saying)
    os._exit(0)  # a simulator may crash while it is taken apart


if __name__ == "__main__":
    _main(int(sys.argv[1]))
