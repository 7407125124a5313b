"""Starts a camera process for each film, since a renderer may abort its process."""

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

LOG_TAIL_CHARS = 600
"""Characters of a camera's output in the report of its crash."""
EXIT_S = 5.0
POLL_S = 1.0
"""Longest time between progress reports, in seconds, so that the caller can cancel a film without progress."""
ENCODING = "av"
"""Import name of the library that encodes films."""


@dataclass(frozen=True, slots=True)
class CameraOrder:
    """The request to a camera. It contains a seed, so it is only sent to trusted processes."""

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
    """None for the environment's natural speed."""
    size: tuple[int, int] | None = None
    """Largest width and height of the film; None for the environment's own."""
    sheet: Path | None = None
    """Path of a contact sheet as PNG; None for none."""
    length: int = 0
    """Number of recorded steps, for the layout of a contact sheet."""
    interface: Mapping[str, Any] = field(default_factory=dict)
    """The interface of the recorded run; empty for the standard one."""
    world_seed: int = 0
    """As in ``core.rollout.EpisodeJob``."""


class LocalCamera:
    """Films episodes of one environment on this machine, one at a time, with a process for each."""

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
        """Film one episode; see ``core.film.Camera``."""
        if self._variables is None:
            self._variables = camera_variables(self._spec, pinned=self._pinned)
        order = CameraOrder(
            *(self._spec, job.seed, *self._schemas, job.actions, job.target),
            sheet=job.sheet,
            length=job.length,
            interface=self._interface,
            world_seed=job.world_seed,
        )
        return shoot(order, self._variables, advanced)


def camera_variables(spec: EnvironmentSpec, *, pinned: bool = True) -> dict[str, str]:
    """Return the environment variables of a camera for a spec; ``pinned`` as when its episodes were played.

    Raises ``UsageError``, which names what to install, if films can't be made here.
    """
    if find_spec(ENCODING) is None:
        raise MissingExtra("Making films", "viewer", ENCODING)
    return {**arithmetic.variables(pinned=pinned), **rendering_variables(spec, os.environ)}


def shoot(order: CameraOrder, variables: Mapping[str, str], advanced: Callable[[int], None]) -> Shot:
    """Film one episode; call ``advanced`` with the number of steps played at least once a second.

    An exception of ``advanced`` ends the film. Raises ``EnvironmentFault`` if the renderer fails or ends its process.
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
            with suppress(BrokenPipeError):  # it ended at its start, which is reported below
                connection.send(order)
            reply, steps = None, 0
            while reply is None:
                if connection.poll(POLL_S):
                    message = connection.recv()
                    steps, reply = (message, None) if isinstance(message, int) else (steps, message)
                if reply is None:
                    advanced(steps)
        except (EOFError, ConnectionResetError):
            raise EnvironmentFault(_crash_message(order, _exit_code(process), log)) from None
        finally:
            process.kill()
            process.wait()
    if isinstance(reply, Fault):
        raise reply.error(f"{order.spec.name} can't be filmed: ")
    return reply  # type: ignore[no-any-return] # a Shot, by the camera's contract


def _exit_code(process: "subprocess.Popen[bytes]") -> int | None:
    try:
        return process.wait(EXIT_S)
    except subprocess.TimeoutExpired:
        return None


def _crash_message(order: CameraOrder, code: int | None, log: IO[bytes]) -> str:
    log.seek(0)
    output = log.read().decode("utf-8", "replace").strip()[-LOG_TAIL_CHARS:]
    how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    how += ", without an error: its own code ended Python" if code == 0 else ""
    return (
        f"The renderer of {order.spec.name} ended its process ({how}), "
        f"so there is no film. The run directory is unchanged." + (f" Its output:\n{output}" if output else "")
    )
