"""The camera process: renders an episode from its recorded actions and encodes the film.

It runs as ``python -P -m evopolicygym.rollout.films.camera DESCRIPTOR``. For a pack with its own Python, it starts this
module there with the argument ``pictures``: that process renders and returns each picture as step, speed, shape and
bytes. No policy runs: the actions come from the run directory. The trajectory is hashed as a worker hashes an episode,
so that the film can be verified against the event log.
"""

import socket
import subprocess
import sys
from contextlib import ExitStack
from multiprocessing.connection import Connection

import numpy as np

from evopolicygym.core.errors import EnvironmentFault
from evopolicygym.core.film import Shot
from evopolicygym.environments.rendering import Picture
from evopolicygym.packs.installation import command
from evopolicygym.rollout.films.drawing import DrawnEpisode, OnProgress, Show, draw, serve_order
from evopolicygym.rollout.films.encoding import ContactSheet, Encoder
from evopolicygym.rollout.films.filming import CameraOrder
from evopolicygym.rollout.messages import Fault

PROGRAM, PICTURES = "evopolicygym.rollout.films.camera", "pictures"


def film(order: CameraOrder, _connection: Connection, on_progress: OnProgress) -> Shot:
    """Render the episode and write the film."""
    sheet = ContactSheet(order.length) if order.sheet else None
    encoders: list[Encoder] = []
    with ExitStack() as stack:

        def show(steps: int, watched_fps: float, picture: Picture) -> None:
            if not encoders:  # the speed is known with the first picture
                fps = order.fps or watched_fps / order.steps_per_frame
                encoders.append(stack.enter_context(Encoder(order.target, fps, order.size)))
            encoders[0].add(picture)
            if sheet:
                sheet.offer(steps, picture)

        rendered = (draw_in_pack if order.spec.pack else draw)(order, show, on_progress)
    (encoder,) = encoders
    return Shot(
        frames=encoder.frames,
        steps_per_frame=order.steps_per_frame,
        fps=encoder.fps,
        width=encoder.width,
        height=encoder.height,
        length=rendered.length,
        episode_return=rendered.episode_return,
        trajectory_sha256=rendered.trajectory_sha256,
        sheet=sheet.write(order.sheet) if sheet and order.sheet else None,
    )


def draw_in_pack(order: CameraOrder, show: Show, on_progress: OnProgress) -> DrawnEpisode:
    """Render on the pack's Python, with the results and errors of ``draw``; raise ``EnvironmentFault`` if it ends."""
    ours, theirs = socket.socketpair()
    with Connection(ours.detach()) as connection:
        with theirs:
            process = subprocess.Popen(
                command(order.spec.pack, PROGRAM, str(theirs.fileno()), PICTURES),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        try:
            connection.send(order)
            while not isinstance(message := connection.recv(), DrawnEpisode | Fault):
                if isinstance(message, int):
                    on_progress(message)
                else:
                    steps, fps, shape = message
                    show(steps, fps, np.frombuffer(connection.recv_bytes(), np.uint8).reshape(shape))
        except (EOFError, ConnectionResetError) as error:
            raise EnvironmentFault(f"The Python of the pack {order.spec.pack!r} ended while it rendered.") from error
        finally:
            process.kill()
            process.wait()
    if isinstance(message, Fault):
        raise message.error()
    return message


def send_pictures(order: CameraOrder, connection: Connection, on_progress: OnProgress) -> DrawnEpisode:
    """Render, and send each picture: its step, speed and shape, then its bytes."""

    def show(steps: int, fps: float, picture: Picture) -> None:
        connection.send((steps, fps, picture.shape))
        connection.send_bytes(np.ascontiguousarray(picture).tobytes())

    return draw(order, show, on_progress)


if __name__ == "__main__":
    serve_order(int(sys.argv[1]), send_pictures if sys.argv[2:] == [PICTURES] else film)
