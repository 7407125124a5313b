"""Single frames of an episode that was filmed for the agent."""

import base64
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from asking import ask, refusal, submit
from evopolicygym.core.errors import RequestRefused
from evopolicygym.core.film import FilmJob, Shot
from evopolicygym.judge.films import parse_stills
from evopolicygym.rollout.films.encoding import Encoder, library
from fakes import OpenRun, RunMaker

GREYS = (0, 80, 160, 240)
FRAMES = "/submissions/0/frames"


@pytest.fixture
def filmed(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> OpenRun:
    """A run with a real film of case 1, each frame of one grey."""
    pytest.importorskip("av", reason="films are made with the extra viewer")
    run = new_run(films=2)
    really: Callable[..., Shot] = run.camera.film

    def film(job: FilmJob, advanced: Callable[[int], None]) -> Shot:
        shot = really(job, advanced)
        with Encoder(job.target, 30, None) as encoder:
            for grey in GREYS:
                encoder.add(np.full((32, 32, 3), grey, np.uint8))
        return shot

    monkeypatch.setattr(run.camera, "film", film)
    submit(run, {"env_instances": "0-1", "films": "1"})
    return run


def grey_of(png: bytes, path: Path) -> float:
    path.write_bytes(png)
    with library().open(str(path)) as picture:
        return float(next(picture.decode(video=0)).to_ndarray(format="gray").mean())


def test_frames_of_a_film(filmed: OpenRun, tmp_path: Path) -> None:
    """Each step that is named comes as a PNG file of that very frame."""
    answer = ask(filmed, "GET", f"{FRAMES}?episode=1&steps=0,3").json()
    pictures = {int(step): base64.b64decode(text) for step, text in answer["frames"].items()}
    shades = {step: grey_of(picture, tmp_path / "frame.png") for step, picture in pictures.items()}

    assert shades == {0: pytest.approx(GREYS[0], abs=8), 3: pytest.approx(GREYS[3], abs=8)}


@pytest.mark.parametrize(
    "asked",
    [
        "?episode=0&steps=0",
        "?episode=1&steps=4",
        "?episode=1&steps=",
        "?episode=1",
        "",
        "?episode=-1&steps=0",
        "?episode=" + "1" * 5000 + "&steps=0",
        "?episode=1&steps=0;1",
        "?episode=1&steps=" + ",".join("0" * 13),
        "?episode=1&steps=99999999999",
    ],
)
def test_frames_that_there_are_not(filmed: OpenRun, asked: str) -> None:
    """An episode without a film, a step beyond its end, and what can't be read are refused."""
    assert refusal(ask(filmed, "GET", FRAMES + asked)) == (400, "invalid_request")


def test_a_film_that_somebody_changed(filmed: OpenRun) -> None:
    """What is not as it was published is never decoded."""
    film = filmed.feedback(0) / "episodes" / "ep_001" / "video.mp4"
    film.parent.chmod(0o755)
    film.chmod(0o644)
    film.write_bytes(film.read_bytes() + b"more")
    answer = ask(filmed, "GET", f"{FRAMES}?episode=1&steps=0")

    assert refusal(answer) == (400, "invalid_request")


def test_frames_end(filmed: OpenRun) -> None:
    """They count as checks, of which there are so many."""
    before = filmed.session.trials.left
    ask(filmed, "GET", f"{FRAMES}?episode=1&steps=0")

    assert filmed.session.trials.left == before - 1


def test_at_most_twelve_frames_of_a_million_steps() -> None:
    """Twelve frames may be requested and no more, and a step has at most seven digits."""
    assert parse_stills("0", ",".join(map(str, range(12)))) == (0, tuple(range(12)))
    assert parse_stills("1", "1000000") == (1, (1000000,))
    for episode, steps in (("0", ",".join(map(str, range(13)))), ("0", "10000000"), ("10000000", "0")):
        with pytest.raises(RequestRefused):
            parse_stills(episode, steps)
