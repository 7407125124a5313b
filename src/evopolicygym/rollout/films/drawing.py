"""Renders an episode: plays its recorded actions in a rendered environment and passes each picture on.

Encoding is the camera's task.
"""

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from evopolicygym.core.errors import RecordError
from evopolicygym.core.interface import BoundInterface
from evopolicygym.core.spaces import InvalidAction, action_reader, from_schema
from evopolicygym.environments.environment import PlayedEnvironment, play_through
from evopolicygym.environments.rendering import Picture, RenderedEnvironment
from evopolicygym.environments.spaces import from_json
from evopolicygym.records import trajectories
from evopolicygym.rollout.episode import Recorder
from evopolicygym.rollout.films.filming import CameraOrder
from evopolicygym.rollout.guest import layout
from evopolicygym.rollout.messages import fault_of
from evopolicygym.rollout.policy_monitor import HANG_S, Watchdog

Show = Callable[[int, float, Picture], None]
"""Takes the number of steps played, the environment's natural speed in steps per second, and the picture."""
OnProgress = Callable[[int], None]
"""Takes the number of steps played."""


@dataclass(frozen=True, slots=True)
class DrawnEpisode:
    """Results of a rendered episode."""

    length: int
    episode_return: float
    trajectory_sha256: str


def draw(order: CameraOrder, show: Show, on_progress: OnProgress) -> DrawnEpisode:
    """Play the actions until they or the episode end; show the first picture and then one per ``steps_per_frame``."""
    environment = RenderedEnvironment(order.spec, order.size, order.world_seed)
    played = play_through(environment, BoundInterface.of(order.interface) if order.interface else None)
    schemas = dict(order.observation_schema), dict(order.action_schema)
    frame = bytearray(layout.size(schemas[0], wide=False))
    write = layout.bind(schemas[0], frame, wide=False).write
    recorder = Recorder(frame, 0, *schemas, order.spec.max_steps)
    write(played.reset(order.seed))
    recorder.start()
    first = environment.picture()
    terminated = truncated = False
    show(0, environment.fps, first)
    for action in _actions(order, played):
        observation, reward, terminated, truncated, info = played.step(action)
        write(observation)
        recorder.add(action, reward, info)
        if recorder.length % order.steps_per_frame == 0:
            show(recorder.length, environment.fps, environment.picture())
        on_progress(recorder.length)
        if terminated or truncated:
            break
    if recorder.length % order.steps_per_frame:
        show(recorder.length, environment.fps, environment.picture())
    environment.close()
    digest = recorder.digest(terminated=terminated, truncated=truncated)
    return DrawnEpisode(recorder.length, recorder.episode_return, digest)


def serve_order(descriptor: int, work: Callable[[CameraOrder, Connection, OnProgress], Any]) -> None:
    """Receive an order, send the result of ``work``, and exit without teardown, which crashes some renderers."""
    connection, watchdog = Connection(descriptor), Watchdog(HANG_S)
    watchdog.reset()
    order: CameraOrder = connection.recv()

    def on_progress(steps: int) -> None:
        watchdog.reset()
        connection.send(steps)  # raises, and so ends this process, if the receiver is gone

    with suppress(BrokenPipeError):
        try:
            connection.send(work(order, connection, on_progress))
        except BrokenPipeError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a simulator raises
            traceback.print_exc()
            connection.send(fault_of(error))
    os._exit(0)


def _actions(order: CameraOrder, environment: PlayedEnvironment) -> Iterator[Any]:
    """Yield the recorded actions as the environment takes them; raise ``RecordError`` for an invalid action."""
    space = environment.action_space
    read = action_reader(space)
    recorded = trajectories.read_steps(
        order.actions, *map(from_schema, (order.observation_schema, order.action_schema))
    )
    for index, step in enumerate(recorded or ()):
        try:
            yield read(from_json(space, _to_json_value(step.action)))[0]
        except InvalidAction as error:
            raise RecordError(f"Invalid action of step {index} in {order.actions}: {error}") from error


def _to_json_value(value: Any) -> Any:  # noqa: ANN401 - a value of any space
    """Return a value with its arrays as lists, as in JSON."""
    match value:
        case np.ndarray() | np.generic():
            return value.tolist()
        case dict():
            return {name: _to_json_value(part) for name, part in value.items()}
        case tuple() | list():
            return [_to_json_value(part) for part in value]
        case _:
            return value
