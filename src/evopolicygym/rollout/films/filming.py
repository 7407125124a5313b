"""Has an episode filmed by a camera process, one for each film, since a renderer may abort its process.

``runs/film.py`` films for people who look at a run, ``judge/films.py`` for its agent.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from evopolicygym.core.errors import EnvironmentFault, MissingExtra
from evopolicygym.core.film import FilmJob, Shot
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.rendering import rendering_variables
from evopolicygym.rollout import arithmetic
from evopolicygym.rollout.messages import Fault

LAST_WORDS = 600
"""Characters of a camera's output in the report of its crash."""
END_S = 5.0
LOOK_S = 1.0
"""Most seconds between progress reports, so that the caller can cancel a film without progress."""
ENCODING = "av"
"""The library that writes films, by the name that it is imported under."""


@dataclass(frozen=True, slots=True)
class CameraOrder:
    """The request to a camera. It holds a seed, so it never leaves the trusted side."""

    spec: EnvironmentSpec
    seed: int
    observation_schema: Mapping[str, Any]
    action_schema: Mapping[str, Any]
    actions: Path
    """The episode's directory, as ``records/trajectories.py`` writes it."""
    target: Path
    """Path of the film."""
    steps_per_frame: int = 1
    fps: float | None = None
    """None for as quick as the environment is meant to be watched."""
    size: tuple[int, int] | None = None
    """Width and height that the film must fit into; None for the environment's own."""
    sheet: Path | None = None
    """Path of a contact sheet as PNG; None for none."""
    length: int = 0
    """Steps that were recorded: a contact sheet is laid out for so many."""
    interface: Mapping[str, Any] = field(default_factory=dict)
    """The interface through which it was played; empty for the standard one."""
    world_seed: int = 0
    """As in ``core.rollout.EpisodeJob``."""


class LocalCamera:
    """Films episodes of one environment on this machine, one at a time, a process for each."""

    def __init__(
        self,
        spec: EnvironmentSpec,
        observation_schema: Mapping[str, Any],
        action_schema: Mapping[str, Any],
        *,
        pinned: bool = True,
        interface: Mapping[str, Any] | None = None,
    ) -> None:
        self._pinned, self._interface = pinned, interface or {}
        self._spec, self._schemas = spec, (observation_schema, action_schema)
        self._variables: dict[str, str] | None = None

    def film(self, job: FilmJob, advanced: Callable[[int], None]) -> Shot:
        """Film one episode, as ``core.film.Camera`` has it."""
        if self._variables is None:
            self._variables = needed(self._spec, pinned=self._pinned)
        order = CameraOrder(
            *(self._spec, job.seed, *self._schemas, job.actions, job.target),
            sheet=job.sheet,
            length=job.length,
            interface=self._interface,
            world_seed=job.world_seed,
        )
        return shoot(order, self._variables, advanced)


def needed(spec: EnvironmentSpec, *, pinned: bool = True) -> dict[str, str]:
    """Return the environment variables under which a spec can be filmed here; ``pinned`` as episodes were played.

    Raises ``UsageError``, which names what to install, where it can't be.
    """
    if find_spec(ENCODING) is None:
        raise MissingExtra("Making films", "viewer", ENCODING)
    return {**arithmetic.variables(pinned=pinned), **rendering_variables(spec, os.environ)}


def shoot(order: CameraOrder, variables: Mapping[str, str], advanced: Callable[[int], None]) -> Shot:
    """Film one episode; ``advanced`` gets the number of steps played, each second at least; what it raises ends it.

    Raises ``EnvironmentFault`` where the renderer fails or ends its process, whatever the camera raises otherwise.
    """
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryFile() as log, Connection(ours.detach()) as connection:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "evopolicygym.rollout.films.camera", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            with suppress(BrokenPipeError):  # it died at its start: that is reported below
                connection.send(order)
            reply, steps = None, 0
            while reply is None:
                if connection.poll(LOOK_S):
                    message = connection.recv()
                    steps, reply = (message, None) if isinstance(message, int) else (steps, message)
                if reply is None:
                    advanced(steps)
        except (EOFError, ConnectionResetError):
            raise EnvironmentFault(_death(order, _ended(process), log)) from None
        finally:
            process.kill()
            process.wait()
    if isinstance(reply, Fault):
        raise reply.error(f"{order.spec.name} can't be filmed: ")
    return reply  # type: ignore[no-any-return] # a Shot, by the camera's contract


def _ended(process: "subprocess.Popen[bytes]") -> int | None:
    try:
        return process.wait(END_S)
    except subprocess.TimeoutExpired:
        return None


def _death(order: CameraOrder, code: int | None, log: IO[bytes]) -> str:
    log.seek(0)
    said = log.read().decode("utf-8", "replace").strip()[-LAST_WORDS:]
    how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    return (
        f"The renderer of {order.spec.name} ended its process ({how}), so there is no film; the record is as it was."
        + (f" It said:\n{said}" if said else "")
    )
