"""A camera process: renders an episode from its recorded actions and films it.

Started as ``python -P -m evopolicygym.rollout.films.camera DESCRIPTOR``. No policy runs: the actions come from the
record. The trajectory is hashed as a worker hashes an episode, so that the film can be verified against the journal.
"""

import sys
from contextlib import ExitStack
from multiprocessing.connection import Connection

from evopolicygym.core.film import Shot
from evopolicygym.environments.rendering import Picture
from evopolicygym.rollout.films.drawing import Advanced, answer, draw
from evopolicygym.rollout.films.encoding import ContactSheet, Encoder
from evopolicygym.rollout.films.filming import CameraOrder
from evopolicygym.rollout.films.pack_drawing import draw_in_pack


def film(order: CameraOrder, _connection: Connection, advanced: Advanced) -> Shot:
    """Have the episode drawn, and write the film."""
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

        drawn = (draw_in_pack if order.spec.pack else draw)(order, show, advanced)
    (encoder,) = encoders
    return Shot(
        frames=encoder.frames,
        steps_per_frame=order.steps_per_frame,
        fps=encoder.fps,
        width=encoder.width,
        height=encoder.height,
        length=drawn.length,
        episode_return=drawn.episode_return,
        trajectory_sha256=drawn.trajectory_sha256,
        sheet=sheet.write(order.sheet) if sheet and order.sheet else None,
    )


if __name__ == "__main__":
    answer(int(sys.argv[1]), film)
