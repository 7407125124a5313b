"""Renders an episode on the Python of its pack; the pictures come back as bytes.

Started on that Python as a program with the number of a descriptor, this module sends each picture's step, speed and
shape, then its bytes. The camera encodes them.
"""

import socket
import subprocess
import sys
from multiprocessing.connection import Connection

import numpy as np

from evopolicygym.core.errors import EnvironmentFault
from evopolicygym.environments.rendering import Picture
from evopolicygym.packs.installation import command
from evopolicygym.rollout.films.drawing import Advanced, DrawnEpisode, Show, answer, draw
from evopolicygym.rollout.films.filming import CameraOrder
from evopolicygym.rollout.messages import Fault

PROGRAM = "evopolicygym.rollout.films.pack_drawing"


def draw_in_pack(order: CameraOrder, show: Show, advanced: Advanced) -> DrawnEpisode:
    """Have the pack's Python draw, as ``draw`` does; raise what it raises, ``EnvironmentFault`` where it ends."""
    ours, theirs = socket.socketpair()
    with Connection(ours.detach()) as connection:
        with theirs:
            process = subprocess.Popen(
                command(order.spec.pack, PROGRAM, str(theirs.fileno())),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        try:
            connection.send(order)
            while not isinstance(message := connection.recv(), DrawnEpisode | Fault):
                if isinstance(message, int):
                    advanced(message)
                else:
                    steps, fps, shape = message
                    show(steps, fps, np.frombuffer(connection.recv_bytes(), np.uint8).reshape(shape))
        except (EOFError, ConnectionResetError) as error:
            raise EnvironmentFault(f"The Python of the pack {order.spec.pack!r} ended while it drew.") from error
        finally:
            process.kill()
            process.wait()
    if isinstance(message, Fault):
        raise message.error()
    return message


def _send_pictures(order: CameraOrder, connection: Connection, advanced: Advanced) -> DrawnEpisode:
    """Draw, and send each picture: its step, its speed and its shape, then its bytes."""

    def show(steps: int, fps: float, picture: Picture) -> None:
        connection.send((steps, fps, picture.shape))
        connection.send_bytes(np.ascontiguousarray(picture).tobytes())

    return draw(order, show, advanced)


if __name__ == "__main__":
    answer(int(sys.argv[1]), _send_pictures)
