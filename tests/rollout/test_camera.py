"""The camera: plays recorded actions again, draws each state, and sees what was seen without it, bit for bit."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evopolicygym.core.errors import EnvironmentFault, RecordError, UsageError
from evopolicygym.environments import rendering
from evopolicygym.rollout.films.encoding import fit_size
from evopolicygym.specs import catalog
from films import acted, pictures
from places import SUPPORT
from simulators import spec

SIZES = {
    "cartpole": (600, 400),
    "bipedal_walker": (600, 400),
    "half_cheetah": (480, 480),
    "door_key": (512, 512),
    "parking": (600, 300),
    "roundabout": (600, 600),
    "fetch_pick_and_place": (480, 480),
}
LONG = {"bipedal_walker", "parking", "roundabout", "fetch_pick_and_place"}
FILMING = """
import resource, sys
from pathlib import Path
import numpy as np
from evopolicygym.rollout.films.encoding import Encoder

picture = np.random.default_rng(0).integers(0, 255, (500, 500, 3), np.uint8)
with Encoder(Path(sys.argv[1]), 50, None) as encoder:
    for count in range(int(sys.argv[2])):
        picture[:, count % 500] = count % 256
        encoder.add(picture)
        if count == 60:
            early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - early)
"""


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let cameras find the simulators of the tests."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT), prepend=os.pathsep)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] if name in LONG else []) for name in SIZES]
)
def test_a_film_of_each_kind_of_simulator(name: str, tmp_path: Path) -> None:
    """A frame for the reset and one for each step, in the simulator's size; the episode is the same, bit for bit."""
    episode = acted(catalog.load(name), tmp_path, 12)
    shot = episode.filmed()
    shown = pictures(episode.order.target)

    assert (shot.trajectory_sha256, shot.episode_return) == (episode.trajectory_sha256, episode.episode_return)
    assert (shot.frames, shot.length, len(shown)) == (episode.length + 1, episode.length, episode.length + 1)
    assert (shot.width, shot.height) == SIZES[name]
    assert shown[0].shape == (shot.height, shot.width, 3)
    assert shown[0].std() > 5
    assert not np.array_equal(shown[0], shown[-1])


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(catalog.names()))
def test_drawing_changes_no_episode(name: str, tmp_path: Path) -> None:
    """Whole episodes of every environment are the same with a camera as without, drawn at every fourth step."""
    episode = acted(catalog.load(name), tmp_path, 1000, steps_per_frame=4, size=(160, 160))

    shot = episode.filmed()

    assert shot.trajectory_sha256 == episode.trajectory_sha256
    assert all(shown.std() > 5 for shown in pictures(episode.order.target))


@pytest.mark.usefixtures("importable")
def test_frames_sizes_and_speed(tmp_path: Path) -> None:
    """Frame k shows step k times the stride, the last step always has one; odd sides lose a line, others are fitted."""
    whole = acted(spec("Drawn"), tmp_path / "whole", 5).filmed()
    some = acted(spec("Drawn"), tmp_path / "some", 5, steps_per_frame=3, size=(40, 40)).filmed()
    quick = acted(spec("Drawn"), tmp_path / "quick", 5, fps=30.0).filmed()

    assert (whole.frames, whole.width, whole.height, whole.fps) == (6, 60, 44, 8)
    assert (some.frames, some.width, some.height, some.steps_per_frame) == (3, 40, 28, 3)
    assert some.fps == pytest.approx(8 / 3)
    assert quick.fps == 30
    assert len(pictures(tmp_path / "some" / "film.mp4")) == 3
    assert fit_size(500, 500, (321, 97)) == (96, 96)


@pytest.mark.usefixtures("importable")
def test_a_simulator_that_drawing_disturbs_is_seen(tmp_path: Path) -> None:
    """Where drawing draws on the simulator's own randomness, the trajectory is another, and its hash says so."""
    episode = acted(spec("Drawn", fault="disturbs"), tmp_path, 5)

    assert episode.filmed().trajectory_sha256 != episode.trajectory_sha256


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize(
    ("fault", "told"),
    [("aborts", "SIGABRT"), ("raises", "the paint is dry"), ("draws nothing", "Drawn-v0")],
)
def test_a_renderer_that_fails(fault: str, told: str, tmp_path: Path) -> None:
    """A renderer that ends its process, raises or draws nothing is an error that says so, and nothing else ends."""
    with pytest.raises(EnvironmentFault, match=told):
        acted(spec("Drawn", fault=fault), tmp_path, 5).filmed()


@pytest.mark.usefixtures("importable")
def test_actions_that_are_none(tmp_path: Path) -> None:
    """Recorded actions of another environment are refused as a damaged record."""
    other = acted(spec("Chooser"), tmp_path / "other", 5)
    episode = acted(spec("Drawn"), tmp_path / "this", 5)
    (other.order.actions / "steps.npz").replace(episode.order.actions / "steps.npz")

    with pytest.raises(RecordError, match="step 0"):
        episode.filmed()


def test_no_way_to_draw_is_told() -> None:
    """Where MuJoCo finds no OpenGL, the message names what was tried and the packages to install."""
    with pytest.raises(UsageError, match=r"MUJOCO_GL=none: .*libegl1 and libgl1-mesa-dri.*libosmesa6"):
        rendering.rendering_variables(catalog.load("half_cheetah"), {"MUJOCO_GL": "none", "PATH": os.environ["PATH"]})


@pytest.mark.nightly
def test_a_films_memory_does_not_grow(tmp_path: Path) -> None:
    """Pictures are encoded as they come: after 60 of 500x500, 240 more take less than the memory of 30."""
    done = subprocess.run(
        [sys.executable, "-c", FILMING, str(tmp_path / "film.mp4"), "300"], capture_output=True, check=True, text=True
    )

    assert int(done.stdout) < 30 * 750
