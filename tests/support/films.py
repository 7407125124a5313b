"""Films in tests: episodes of random actions to be filmed, and films read back picture by picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from evopolicygym.core.errors import UsageError
from evopolicygym.core.film import Shot
from evopolicygym.core.rollout import Recording
from evopolicygym.core.spaces import sample, to_schema
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.rendering import rendering_variables
from evopolicygym.records.trajectories import EpisodeFiles, write_episode
from evopolicygym.rollout.episode import Recorder
from evopolicygym.rollout.films.filming import CameraOrder, shoot
from evopolicygym.rollout.guest import layout


@dataclass(frozen=True, slots=True)
class Acted:
    """An episode of random actions, as it was played and written down without a camera."""

    order: CameraOrder
    length: int
    episode_return: float
    trajectory_sha256: str

    def filmed(self) -> Shot:
        """Film it; skip the test where this machine can't draw."""
        try:
            variables = rendering_variables(self.order.spec, {"PATH": "/usr/bin:/bin"})
        except UsageError as error:
            pytest.skip(str(error))
        return shoot(self.order, variables, lambda _steps: None)


def acted(spec: EnvironmentSpec, directory: Path, steps: int, **order: Any) -> Acted:
    """Play at most so many random actions and write them down."""
    environment, random = Environment(spec), np.random.default_rng(3)
    observation = environment.reset(5)
    schemas = to_schema(environment.observation_space), to_schema(environment.action_space)
    frame = bytearray(layout.size(schemas[0], wide=False))
    write = layout.bind(schemas[0], frame, wide=False).write
    recorder, terminated, truncated = Recorder(frame, 0, *schemas, spec.max_steps), False, False
    write(observation)
    recorder.start()
    while recorder.length < steps and not (terminated or truncated):
        action = sample(environment.action_space, random)
        observation, reward, terminated, truncated, info = environment.step(action)
        write(observation)
        recorder.add(action, reward, info)
    environment.close()
    trajectory = recorder.trajectory(terminated=terminated, truncated=truncated)
    write_episode(directory / "episode", EpisodeFiles(trajectory, b"", b"", None, ()), Recording.ACTIONS)
    told = CameraOrder(spec, 5, *schemas, directory / "episode", directory / "film.mp4", **order)
    digest = recorder.digest(terminated=terminated, truncated=truncated)
    return Acted(told, recorder.length, recorder.episode_return, digest)


def pictures(path: Path) -> list["np.ndarray[Any, Any]"]:
    """Return a film's pictures; it is H.264 as browsers play it, its index before its pictures."""
    content = path.read_bytes()
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert 0 < content.find(b"moov") < content.find(b"mdat")
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
