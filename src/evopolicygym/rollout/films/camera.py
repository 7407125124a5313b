"""A camera: a process that plays an episode's recorded actions again in a rendered environment, and films it.

Started as ``python -P -m evopolicygym.rollout.films.camera DESCRIPTOR``. No policy is near it: the actions come from
the record. What it sees is hashed as a worker hashes an episode, so that the film can be held against the journal.
"""

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from evopolicygym.core.errors import RecordError
from evopolicygym.core.film import Shot
from evopolicygym.core.spaces import InvalidAction, action_reader, from_schema
from evopolicygym.environments.rendering import Picture, RenderedEnvironment
from evopolicygym.environments.spaces import from_json
from evopolicygym.records import playback
from evopolicygym.rollout.films.contact_sheet import ContactSheet
from evopolicygym.rollout.films.encoder import Encoder
from evopolicygym.rollout.films.filming import CameraOrder
from evopolicygym.rollout.guest import layout
from evopolicygym.rollout.messages import fault_of
from evopolicygym.rollout.recorder import Recorder
from evopolicygym.rollout.watchdog import HANG_S, Watchdog


def film(order: CameraOrder, advanced: Callable[[int], None]) -> Shot:
    """Play the actions until they or the episode end, and write the film."""
    environment = RenderedEnvironment(order.spec, order.size)
    schemas = dict(order.observation_schema), dict(order.action_schema)
    frame = bytearray(layout.size(schemas[0], wide=False))
    write = layout.bind(schemas[0], frame, wide=False).write
    recorder = Recorder(frame, 0, *schemas, order.spec.max_steps)
    write(environment.reset(order.seed))
    recorder.start()
    first = environment.picture()
    fps = order.fps or environment.fps / order.steps_per_frame
    terminated = truncated = False
    sheet = ContactSheet(order.length) if order.sheet else None
    with Encoder(order.target, fps, order.size) as encoder:

        def show(picture: Picture) -> None:
            encoder.add(picture)
            if sheet:
                sheet.offer(recorder.length, picture)

        show(first)
        for action in _actions(order, environment):
            observation, reward, terminated, truncated, info = environment.step(action)
            write(observation)
            recorder.add(action, reward, info)
            if recorder.length % order.steps_per_frame == 0:
                show(environment.picture())
            advanced(recorder.length)
            if terminated or truncated:
                break
        if recorder.length % order.steps_per_frame:
            show(environment.picture())
    environment.close()
    return Shot(
        frames=encoder.frames,
        steps_per_frame=order.steps_per_frame,
        fps=encoder.fps,
        width=encoder.width,
        height=encoder.height,
        length=recorder.length,
        episode_return=recorder.episode_return,
        trajectory_sha256=recorder.digest(terminated=terminated, truncated=truncated),
        sheet=sheet.write(order.sheet) if sheet and order.sheet else None,
    )


def _actions(order: CameraOrder, environment: RenderedEnvironment) -> Any:  # noqa: ANN401 - an iterator of values of any space
    """Yield the recorded actions as the environment was given them; raise ``RecordError`` where one can't be read."""
    space = environment.action_space
    read = action_reader(space)
    recorded = playback.steps(order.actions, *map(from_schema, (order.observation_schema, order.action_schema)))
    for place, step in enumerate(recorded or ()):
        try:
            yield read(from_json(space, _plain(step.action)))[0]
        except InvalidAction as error:
            raise RecordError(f"The action recorded of step {place} in {order.actions} is none: {error}") from error


def _plain(value: Any) -> Any:  # noqa: ANN401 - a value of any space
    """Return a value as JSON would have it, where it stood in an array."""
    match value:
        case np.ndarray() | np.generic():
            return value.tolist()
        case dict():
            return {name: _plain(part) for name, part in value.items()}
        case tuple() | list():
            return [_plain(part) for part in value]
        case _:
            return value


def main(descriptor: int) -> None:
    """Film what is ordered, tell of it, and leave at once: a renderer may crash while it is taken apart."""
    connection, watchdog = Connection(descriptor), Watchdog(HANG_S)
    watchdog.rest()
    order: CameraOrder = connection.recv()

    def advanced(steps: int) -> None:
        watchdog.rest()
        connection.send(steps)  # fails, and ends this process, where nobody waits any more

    with suppress(BrokenPipeError):
        try:
            connection.send(film(order, advanced))
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a simulator raises
            traceback.print_exc()
            connection.send(fault_of(error))
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
