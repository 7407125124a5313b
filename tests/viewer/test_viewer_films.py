"""Films, pictures and hidden episodes in a real browser: what is shown at a step is what was there at that step."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from browsers import Met, met
from evopolicygym.agents.builtin.scripted import ScriptedAgent, Submit, Write
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import Box, Dict, Discrete, Tuple
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.runs.film import FilmOptions, films
from evopolicygym.runs.replay import ReplayOptions, play_post_hoc
from evopolicygym.specs import catalog
from evopolicygym.viewer.documents import reading
from evopolicygym.viewer.documents.pictures import picture_layouts, picture_parts, pictures_bundle, without_pictures
from evopolicygym.viewer.site.serving import ServedViewer
from exported import film
from players import BAD
from viewed import asked, real_runs
from whole_runs import Told, config, played

if TYPE_CHECKING:
    from playwright.sync_api import Browser

STILL = (
    "class Policy:\n    def __init__(self, *_):\n        self.space = _[1]\n    def reset(self, index):\n        pass\n"
)
DRIVER = STILL + "    def act(self, obs):\n        return [0.3, 1.0, 0.0]\n"
WALKER = STILL + "    def act(self, obs):\n        return 1\n"


def make_driver(_config: AgentConfig) -> ScriptedAgent:
    """Drive one episode."""
    return ScriptedAgent([Write("policy.py", DRIVER), Submit((0,))])


def make_walker(_config: AgentConfig) -> ScriptedAgent:
    """Turn on the spot for one episode."""
    return ScriptedAgent([Write("policy.py", WALKER), Submit((0,))])


def make_filmed(_config: AgentConfig) -> ScriptedAgent:
    """Play two short episodes and have the second filmed."""
    return ScriptedAgent([Write("policy.py", BAD), Submit((0, 1), films=(1,))])


@dataclass(frozen=True, slots=True)
class Shown:
    """Runs behind a site, with what is known of them."""

    viewer: ServedViewer
    evolver: str
    driver: str
    walker: str
    filmed: str
    driven: Told
    agents: Told


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Play real runs on cartpole, car_racing and door_key, film some of their episodes, and serve them."""
    runs = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(runs.parent / "state"))
        evolver, random = real_runs(runs)
        for paths in (evolver, random):
            _film(paths, split=Split.HELD_OUT, cases="1")
        _film(evolver, split=Split.TRAIN, submission=0, cases="0")
        _film(evolver, split=Split.TRAIN, submission=0, cases="1", steps_per_frame=3)
        play_post_hoc(evolver.root, lambda: None, ReplayOptions(1))
        driven = _small_run(runs, "car_racing", "make_driver", 9)
        walked = _small_run(runs, "door_key", "make_walker", 6)
        filmed = _small_run(runs, "cartpole", "make_filmed", 500, films=1, budget=2)
    with ServedViewer([runs]) as viewer:
        ids = {place.root: place.id for place in viewer.documents.index.directories().values()}
        names = [ids[one.root.resolve()] for one in (evolver, driven.paths, walked.paths, filmed.paths)]
        yield Shown(viewer, *names, driven, filmed)


def _film(paths: RunPaths, **wish: Any) -> None:
    assert all(
        one.film.same
        for one in films(paths.root, FilmOptions(**wish), ReplayOptions(1), lambda _name, _done, _of: None)
    )


def _small_run(runs: Path, environment: str, agent: str, steps: int, films: int = 0, budget: int = 1) -> Told:
    asked_for = config(runs, f"test_viewer_films:{agent}", budget=budget)
    spec = replace(catalog.load(environment), max_steps=steps)
    task = replace(asked_for.task, environment=spec, validation_cases=1, held_out_cases=1, films=films)
    return played(replace(asked_for, task=task))


def at_step(found: Met, step: int) -> None:
    """Wait until the cursor is at a step."""
    found.until(f"document.querySelector('.where').textContent.startsWith('step {step} of')")


def at_frame(found: Met, frame: int, fps: float, video: int = 0) -> None:
    """Wait until a film stands still within a frame."""
    film = f"document.querySelectorAll('video')[{video}]"
    found.until(f"!{film}.seeking && Math.floor({film}.currentTime * {fps}) === {frame}")


@pytest.mark.nightly
def test_a_film_goes_with_the_cursor(chromium: "Browser", shown: Shown) -> None:
    """Keys and slider move the film to the frame of their step, and the film, moved or played, moves the cursor."""
    told = asked(shown.viewer, f"/data/run/{shown.evolver}/episode/train-0-0.json").document
    steps, fps = told["length"], told["film"]["fps"]
    with met(chromium, shown.viewer.entrance) as found:
        page = found.page
        found.open(f"#/episode/{shown.evolver}/train-0-0", "video")
        found.until("document.querySelector('video').readyState >= 2")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        at_step(found, 2)
        at_frame(found, 2, fps)
        page.fill(".scrub input", str(steps))
        at_frame(found, steps, fps)
        page.goto("about:blank")
        found.open(f"#/episode/{shown.evolver}/train-0-0?step=2", "video")
        at_step(found, 2)
        at_frame(found, 2, fps)
        page.keyboard.press("ArrowRight")
        at_frame(found, 3, fps)
        found.until("location.hash.endsWith('?step=3')")
        found.left.clear()  # the empty page between
        at_step(found, steps)
        assert page.inner_text(".series:nth-child(1) .now") == "\N{EN DASH}"  # no reward any more
        page.evaluate(f"document.querySelector('video').currentTime = 3.5 / {fps}")
        at_step(found, 3)
        page.keyboard.press("Space")
        at_step(found, steps)
        found.until("document.querySelector('.scrub button').textContent === 'Play'")

        assert told["film"]["frames"] == steps + 1
        assert len(told["series"]["t"]) == steps + 1


@pytest.mark.nightly
def test_a_film_of_every_third_step(chromium: "Browser", shown: Shown) -> None:
    """Its frame k stands for the steps from 3k on, and its last for the last; the cursor is not drawn back to it."""
    told = asked(shown.viewer, f"/data/run/{shown.evolver}/episode/train-0-1.json").document
    film, steps = told["film"], told["length"]
    with met(chromium, shown.viewer.entrance) as found:
        page = found.page
        found.open(f"#/episode/{shown.evolver}/train-0-1", "video")
        found.until("document.querySelector('video').readyState >= 2")
        page.fill(".scrub input", "5")
        at_frame(found, 1, film["fps"])
        at_step(found, 5)
        page.fill(".scrub input", str(steps))
        at_frame(found, film["frames"] - 1, film["fps"])
        page.evaluate(f"document.querySelector('video').currentTime = 2.5 / {film['fps']}")
        at_step(found, 6)

    assert (film["steps_per_frame"], film["frames"]) == (3, -(-steps // 3) + 1)


@pytest.mark.nightly
def test_a_film_that_the_agent_asked_for(chromium: "Browser", shown: Shown) -> None:
    """The film in the feedback is shown on its episode's page; the list of episodes says which have one."""
    with met(chromium, shown.viewer.entrance) as found:
        found.open(f"#/run/{shown.filmed}/0/episodes", "text=▶ film")
        assert found.page.locator("text=▶ film").count() == 1
        found.open(f"#/episode/{shown.filmed}/train-0-1", "video")
        found.until("document.querySelector('video').readyState >= 2")
    file = shown.agents.paths.published_feedback(0) / "episodes" / "ep_001" / "video.mp4"

    assert asked(shown.viewer, f"/film/{shown.filmed}/train-0-1.mp4").body == file.read_bytes()


@pytest.mark.nightly
def test_pictures_are_drawn_at_the_cursor(chromium: "Browser", shown: Shown) -> None:
    """What car_racing showed the policy is on the page, pixel by pixel, at each step and where the last one led to."""
    episode = shown.driven.paths.published_feedback(0) / "episodes" / "ep_000"
    recorded = np.load(episode / "observations.npz")["observations"]
    steps = len(recorded) - 1
    with met(chromium, shown.viewer.entrance) as found:
        page = found.page
        found.open(f"#/episode/{shown.driver}/train-0-0", "canvas.picture")
        for step in (0, 4, steps):
            page.fill(".scrub input", str(step))
            found.until(f"document.querySelector('figcaption.soft').textContent.includes('step {step},')")
            drawn = page.evaluate(
                "[...document.querySelector('canvas.picture').getContext('2d').getImageData(0, 0, 96, 96).data]"
            )
            assert np.array_equal(np.array(drawn, np.uint8).reshape(96, 96, 4)[..., :3], recorded[step])
    with met(chromium, shown.viewer.entrance, width=390) as found:
        found.open(f"#/episode/{shown.driver}/train-0-0", "canvas.picture")
        found.until("document.querySelector('figcaption.soft').textContent.includes('step 0,')")
        assert found.page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    told = asked(shown.viewer, f"/data/run/{shown.driver}/episode/train-0-0.json").document

    assert told["series"]["observations"] == []
    assert asked(shown.viewer, f"/data/run/{shown.driver}/episode/train-0-0/pictures/9.json").status == 404
    assert asked(shown.viewer, f"/data/run/{shown.evolver}/episode/train-0-0/pictures/0.json").status == 404


def test_pictures_come_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block begins where the one before ended, and the last has what the last step led to."""
    monkeypatch.setattr("evopolicygym.viewer.documents.pictures.MOST_BLOCK", 4 * 40 * 40 * 3)
    paths = film(tmp_path / "run", 9, 40)
    with np.load(paths.train_episode(0, 0) / "observations.npz") as archive:
        recorded = archive["observations"]
    record = read_run(paths.root)
    place = reading.find_episode(record, "train-0-0")
    blocks = [pictures_bundle(record, place, number) for number in range(3)]

    assert [(block["first"], block["count"]) for block in blocks] == [(0, 4), (4, 4), (8, 2)]
    assert b"".join(base64.b64decode(block["pictures"][""]) for block in blocks) == recorded.tobytes()
    with pytest.raises(UsageError, match="block 3"):
        pictures_bundle(record, place, 3)


def test_which_parts_of_an_observation_are_pictures() -> None:
    """Bytes in rows and columns, wherever they stand; the rest is left to be plotted."""
    box = Box((7, 7, 3), "uint8", 0, 255)
    space = Dict(
        (("map", box), ("pair", Tuple((Box((4, 4), "uint8", 0, 1), Discrete(3)))), ("speed", Box((2,), "uint8", 0, 9)))
    )
    value = {"map": np.zeros((7, 7, 3)), "pair": (np.zeros((4, 4)), 2), "speed": [1, 2]}

    assert [name for name, _ in picture_parts(space)] == ["map", "pair[0]"]
    assert without_pictures(value, space) == {"pair": [None, 2], "speed": [1, 2]}
    assert without_pictures(np.zeros((7, 7, 3)), box) is None
    assert not list(picture_parts(Box((7, 7, 3), "float32", 0, 1)))
    assert [catalog_meaning(name) for name in ("door_key", "car_racing")] == ["minigrid", "colours"]


def catalog_meaning(name: str) -> str:
    """Return what the pictures of an environment mean."""
    (layout,) = picture_layouts(Box((96, 96, 3), "uint8", 0, 255), catalog.load(name))
    return str(layout["meaning"])


@pytest.mark.nightly
def test_a_grid_is_drawn_as_what_it_means(chromium: "Browser", shown: Shown) -> None:
    """MiniGrid's numbers are kinds and colours: they are drawn as things and told in words, the rest is plotted."""
    told = asked(shown.viewer, f"/data/run/{shown.walker}/episode/train-0-0.json").document
    with met(chromium, shown.viewer.entrance) as found:
        page = found.page
        found.open(f"#/episode/{shown.walker}/train-0-0", "canvas.picture")
        found.until("document.querySelector('figcaption.soft').textContent.includes('image at step 0: ')")
        colours = page.evaluate(
            "new Set(new Uint32Array(document.querySelector('canvas.picture').getContext('2d')"
            ".getImageData(0, 0, 224, 224).data.buffer)).size"
        )

    assert colours > 3
    assert [part["meaning"] for part in told["series"]["pictures"]] == ["minigrid"]
    assert not any("image" in column["name"] for column in told["series"]["observations"])
    assert any("direction" in column["name"] for column in told["series"]["observations"])


@pytest.mark.nightly
def test_hidden_episodes_of_every_candidate(chromium: "Browser", shown: Shown) -> None:
    """Validation of a checkpoint that was not selected has its steps; what post-hoc played has its returns."""
    with met(chromium, shown.viewer.entrance) as found:
        page = found.page
        found.open(f"#/run/{shown.evolver}/0/episodes", "text=Held-out, played afterwards")
        returns = page.locator("[aria-label^='Held-out, played'] tbody tr").count()
        page.click("text=held_out-0-2")
        page.wait_for_selector("text=Post-hoc keeps the returns alone")
        found.open(f"#/episode/{shown.evolver}/validation-0-1", ".scrub")
        page.click("[aria-label='Episode before']")
        page.wait_for_selector("h1:has-text('validation-0-0')")
    document = asked(shown.viewer, f"/data/run/{shown.evolver}/submission/0.json").document
    post_hoc = json.loads((shown.viewer.documents.index.directory(shown.evolver).paths.post_hoc).read_bytes())

    assert returns == 3
    assert [row["return"] for row in document["hidden"]["post_hoc"]] in [
        one["returns"] for one in post_hoc["checkpoints"].values()
    ]
    assert len(document["hidden"]["validation"]) == 2


@pytest.mark.nightly
def test_films_of_one_case_side_by_side(chromium: "Browser", shown: Shown) -> None:
    """The task's page shows the two agents' films of a held-out case, and one slider moves both."""
    told = asked(shown.viewer, "/data/task/cartpole.json").document["films"]
    with met(chromium, shown.viewer.entrance) as found:
        page = found.page
        found.open("#/task/cartpole", ".side video")
        found.until("[...document.querySelectorAll('video')].every((one) => one.readyState >= 2)")
        page.fill("[aria-label='Step of all films']", "7")
        for place, one in enumerate(told[0]["films"]):
            at_frame(found, 7, one["film"]["fps"], place)
        page.click("text=Play all")
        found.until("[...document.querySelectorAll('video')].some((one) => !one.paused)")
        page.click("text=Pause all")
        found.until("[...document.querySelectorAll('video')].every((one) => one.paused)")

    assert [(one["split"], one["case"]) for one in told] == [("held_out", 1), ("train", 1)]
    assert len({film["entry"] for film in told[0]["films"]}) == len(told[0]["films"]) == 2
