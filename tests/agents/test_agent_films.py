"""Films that an agent asks for: refused clearly, made between play and feedback, and never at anybody's cost."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from asking import refusal, submit
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.errors import EnvironmentFault, MissingExtra, StorageError, UsageError
from evopolicygym.core.film import NoFilm
from evopolicygym.core.task import FeedbackProfile
from evopolicygym.judge import films
from evopolicygym.records import verify
from evopolicygym.records.films import read_film
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import read_run
from evopolicygym.records.task_text import info, task_text
from evopolicygym.rollout.films.encoding import COLUMNS, DOT, GLYPHS, TILES, ContactSheet
from evopolicygym.rollout.films.filming import camera_variables
from evopolicygym.runs import turns, workspace
from evopolicygym.specs import catalog
from fakes import OpenRun, RunMaker, open_run, task
from films import acted, pictures
from lifeline import PATIENCE_S
from whole_runs import Told, config, played

FILMED_EPISODE = {"stdout.txt", "stderr.txt", "trajectory.jsonl", "video.mp4", "video.png", "video.json"}
LOOKING_AGENT = """
import json, pathlib, struct, subprocess, sys
asked = [sys.executable, "judge", "submit", "0-2", "--films", "2"]
print(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
folder = pathlib.Path("feedback/submit_000")
(film,) = json.loads((folder / "summary.json").read_text())["films"]
picture, movie = ((folder / film[name]).read_bytes() for name in ("sheet", "film"))
print(json.dumps({"png": struct.unpack(">II", picture[16:24]), "mp4": movie[4:8].decode(), "film": film}))
try:
    (folder / film["film"]).write_bytes(b"")
except OSError as error:
    print(type(error).__name__)
"""


def asked_for(run: OpenRun, wanted: object, instances: object = "0-3") -> Any:
    return submit(run, {"env_instances": instances, "films": wanted})


def told_of(run: OpenRun, index: int = 0) -> list[dict[str, Any]]:
    summary = json.loads((run.feedback(index) / "summary.json").read_bytes())
    found: list[dict[str, Any]] = summary["films"]
    return found


def fails(root: Path) -> list[str]:
    return [one.name for one in verify.findings(root) if not one.ok]


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Return a real run on cartpole whose agent, kept in a sandbox, asks for a film and looks at it."""
    place = tmp_path_factory.mktemp("looked")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        patch.setattr(turns, "AGENT_LAST_WORDS_S", 60.0)  # it looks once the budget is spent, however busy the machine
        asked = config(place / "runs", budget=3)
        agent = AgentConfig("command", command=("python3", "-c", LOOKING_AGENT))
        return played(replace(asked, agent=agent, task=replace(asked.task, films=2)))


def test_an_agent_in_its_sandbox_sees_its_film(looked: Told) -> None:
    """The real renderer's film lies beside the episode, told in the summary, readable and not writable."""
    folder = looked.paths.published_feedback(0) / "episodes"
    said = looked.paths.transcript.read_text(encoding="utf-8").splitlines()
    seen = json.loads(said[-2])
    film = read_film(folder / "ep_002" / "video.mp4")
    episode = looked.state.submissions[0].episodes[2]

    assert film is not None
    assert episode is not None
    assert [line for line in said if "episodes/ep_002/video.png" in line and "episodes/ep_002/video.mp4" in line]
    assert seen["mp4"] == "ftyp"
    assert said[-1] in {"PermissionError", "OSError"}  # by its mode, or by how it is mounted
    assert seen["film"]["film"] == "episodes/ep_002/video.mp4"
    assert film.shot.sheet is not None
    assert seen["png"] == [4 * film.shot.sheet.tile_width, 3 * film.shot.sheet.tile_height]
    assert {path.name for path in (folder / "ep_002").iterdir()} == FILMED_EPISODE
    assert not list((folder / "ep_001").glob("video*"))
    assert len(pictures(folder / "ep_002" / "video.mp4")) == episode.length + 1 == film.shot.frames
    assert (film.same, film.shot.trajectory_sha256) == (True, episode.trajectory_sha256)
    assert (looked.state.spent, looked.state.films_left) == (3, 1)


def test_a_film_that_is_changed_later_is_noticed(looked: Told, tmp_path: Path) -> None:
    """What an agent was shown stands in its feedback's hash; films that somebody made afterwards do not."""
    copy = RunPaths(tmp_path / "run")
    shutil.copytree(looked.paths.root, copy.root)
    (copy.films / "train").mkdir(parents=True)
    (copy.films / "train" / "any.mp4").write_bytes(b"made later")
    before = fails(copy.root)
    film = copy.published_feedback(0) / "episodes" / "ep_002" / "video.mp4"
    film.chmod(0o644)
    film.write_bytes(film.read_bytes() + b"\0")

    assert (before, fails(copy.root)) == ([], ["feedback submit_000"])


def test_the_desk_tells_of_films_where_there_are_some(tmp_path: Path, new_run: RunMaker) -> None:
    """AGENTS.md, the task and /info speak of films only where the run has some; /info always tells the bounds."""
    workspace.create_workspace(RunPaths(tmp_path / "with"), 9)
    workspace.create_workspace(RunPaths(tmp_path / "without"))
    rules = [(tmp_path / name / "workspace" / "AGENTS.md").read_text() for name in ("with", "without")]
    runs = [new_run("with-films", films=9), new_run("without-films")]
    infos = [info(run.session.state, run.executor.info) for run in runs]

    sections = dict(zip(*[iter(re.split(r"(?m)^## (.*)$", rules[0])[1:])] * 2, strict=True))
    assert re.findall(r"\d+", sections["Films"])[:2] == ["9", "4"]
    assert list(sections).index("Films") < len(sections) - 1
    assert "ilm" not in rules[1]
    assert ["## Films" in task_text(run.session.state) for run in runs] == [True, False]
    assert [(one["max_films"], one["max_films_per_submit"]) for one in infos] == [(9, 4), (0, 0)]
    assert [one["state"]["remaining_films"] for one in infos] == [9, 0]


@pytest.mark.parametrize(
    ("wanted", "status", "said"),
    [
        ("5", "invalid_env_instance", r"films: .*\b5\b.*env_instances"),
        ([1, 1], "invalid_env_instance", r"films: .*\b1\b"),
        ([16], "invalid_env_instance", r"films: .*\b16\b.*\b0 to 15"),
        ([True], "invalid_env_instance", r"films: .*True"),
        (3, "invalid_env_instance", r"films: .*\b3\b"),
        ("", "invalid_env_instance", r"films: ''"),
        ("0-4", "budget_invalid", r"\b5 films.*\b4\b"),
        ("0-3", "budget_invalid", r"\b4 films.*\b3\b"),
    ],
)
def test_films_that_can_t_be_asked_for(new_run: RunMaker, wanted: object, status: str, said: str) -> None:
    """Each refusal names the rule and the value, and charges nothing, neither episodes nor films."""
    run = new_run(films=3)
    before = run.journal()
    answer = asked_for(run, wanted)

    assert refusal(answer) == (400, status)
    assert re.search(said, answer.json()["error"]["message"])
    assert (before, [], run.session.state.films_left) == (run.journal(), list(run.paths.checkpoints.iterdir()), 3)


def test_a_run_without_films(new_run: RunMaker) -> None:
    """Where a run makes none, asking is refused; asking for none is not, and the summary speaks of none."""
    run = new_run()
    answer = asked_for(run, [0])

    assert refusal(answer) == (400, "invalid_request")
    assert asked_for(run, [], "0").status_code == 200
    assert "films" not in json.loads((run.feedback(0) / "summary.json").read_bytes())


def test_films_are_counted_and_told_in_their_order(new_run: RunMaker) -> None:
    """A run's films get fewer with each; of a case submitted twice the first episode is filmed; none cost budget."""
    run = new_run(films=3)
    first = asked_for(run, "3,5", "5,3,5").json()["summary"]["films"]
    again = (
        submit(run, {"env_instances": [0], "films": [0], "key": "a"}),
        submit(run, {"env_instances": [0], "key": "a"}),
    )

    assert [(one["env_instance"], one["episode"], one["film"]) for one in first] == [
        (3, 1, "episodes/ep_001/video.mp4"),
        (5, 0, "episodes/ep_000/video.mp4"),
    ]
    assert first[0]["sheet_steps"] == [0, 3]
    assert (run.session.state.films_left, run.session.state.remaining) == (0, 4)
    assert again[0].json() == again[1].json()
    assert refusal(asked_for(run, [0], "0"))[1] == "budget_invalid"


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (MissingExtra("Making films", "viewer", "av"), NoFilm.NO_CAMERA),
        (UsageError("can't render here"), NoFilm.NO_CAMERA),
        (EnvironmentFault("The renderer in /home/me ended its process"), NoFilm.FAILED),
        (MemoryError("/home/me"), NoFilm.FAILED),
        (OSError(24, "Too many open files"), NoFilm.FAILED),
    ],
)
def test_a_film_that_fails_harms_nobody(new_run: RunMaker, fault: Exception, problem: NoFilm) -> None:
    """The feedback comes as without it and says why in words of ours; nothing is left of it, and it costs no film."""
    run = new_run(films=1)
    run.camera.fault = fault
    (told,) = asked_for(run, [1], "0-1").json()["summary"]["films"]
    run.camera.fault = None
    (then,) = asked_for(run, [0], "0-1").json()["summary"]["films"]

    assert (told["problem"], told["film"], told["sheet"], told["frames"]) == (problem.value, None, None, None)
    assert not list(run.feedback(0).rglob("video*"))
    assert str(fault) in run.paths.film_log.read_text(encoding="utf-8")
    assert (then["problem"], run.session.state.films_left, run.session.state.remaining) == (None, 0, 4)
    assert fails(run.paths.root) == []


def test_a_film_that_shows_another_episode_is_not_shown(new_run: RunMaker) -> None:
    """Where drawing changed the episode, an agent would learn from what never was: there is no film."""
    run = new_run(films=1)
    run.camera.shows_another = True

    assert asked_for(run, [1]).json()["summary"]["films"][0]["problem"] == NoFilm.ANOTHER_EPISODE.value
    assert not list(run.feedback(0).rglob("video*"))


def test_a_film_that_takes_too_long_is_given_up(new_run: RunMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Feedback waits for a film, but not for ever."""
    monkeypatch.setattr(films, "FILM_S", -1.0)

    assert asked_for(new_run(films=1), [1]).json()["summary"]["films"][0]["problem"] == NoFilm.TOO_LONG.value


def test_a_policy_that_can_t_be_loaded_is_not_filmed(new_run: RunMaker) -> None:
    """Nothing was played, so there is nothing to film; the films asked for are not spent."""
    run = new_run(films=1)
    run.write_policy("import_error")

    assert asked_for(run, [1]).json()["summary"]["films"] is None
    assert (run.session.state.films_left, run.camera.filmed) == (1, [])


def test_a_run_put_down_while_it_films(tmp_path: Path) -> None:
    """Taken up, it plays no episode again and makes the films anew; what was half made is gone."""
    with open_run(tmp_path / "run", {"films": 2}) as run:
        run.camera.film = lambda job, advanced: _stopped(run, job, advanced)  # type: ignore[method-assign]
        request = {"env_instances": "0-1", "films": "0-1", "wait": False, "key": "k"}
        submit(run, request)
        run.session._player.join(PATIENCE_S)
        assert run.session.state.submissions[0].published is None
        assert not run.session.state.submissions[0].missing
    stray = run.paths.staged_feedback(0) / "episodes" / "ep_001" / "video.mp4.1.part"
    stray.write_bytes(b"half")
    with open_run(tmp_path / "run") as again:
        submit(again, {**request, "wait": True})

        assert [one["problem"] for one in told_of(again)] == [None, None]
        assert (again.executor.played, len(again.camera.filmed)) == ([], 2)
        assert not list(again.paths.root.rglob("*.part"))


def _stopped(run: OpenRun, job: Any, advanced: Any) -> Any:
    job.target.write_bytes(b"half")
    run.rollouts.stop.set()
    advanced(1)
    raise AssertionError("it was to be stopped")


def test_a_full_disk_stops_the_run_as_ever(new_run: RunMaker) -> None:
    """A film that can't be stored is no renderer's failure: the run stops, to be resumed."""
    run = new_run(films=1)
    run.camera.fault = StorageError("No space left on device")

    assert refusal(asked_for(run, [1]))[0] == 503
    assert read_run(run.paths.root).state.submissions[0].published is None


def test_what_a_run_can_not_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Films under a profile that shows none, fewer than none, or on a machine that can't film are refused at once."""
    with pytest.raises(UsageError, match="returns"):
        task(films=1, feedback=FeedbackProfile.RETURNS)
    with pytest.raises(UsageError, match=r"films.* -1"):
        task(films=-1)
    asked = config(tmp_path / "runs")
    monkeypatch.setattr("evopolicygym.rollout.films.filming.ENCODING", "no_such_library")
    with pytest.raises(MissingExtra, match=r"evopolicygym\[viewer\]"):
        played(replace(asked, task=replace(asked.task, films=1)))
    assert not list((tmp_path / "runs").rglob("journal.jsonl"))


def test_a_contact_sheet(tmp_path: Path) -> None:
    """Twelve real frames from the reset to the last step, each with its step's number; a short episode has fewer."""
    episode = acted(catalog.load("cartpole"), tmp_path, 9, sheet=tmp_path / "sheet.png", length=9)
    shot = episode.filmed()
    with av.open(str(tmp_path / "sheet.png")) as container:
        (sheet,) = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]

    assert shot.sheet is not None
    assert episode.length == 9
    assert shot.sheet.steps == tuple(range(10))
    assert (shot.sheet.columns, shot.sheet.rows) == (COLUMNS, 3)
    assert sheet.shape == (3 * shot.sheet.tile_height, COLUMNS * shot.sheet.tile_width, 3)
    for place, step in enumerate(shot.sheet.steps):
        row, column = divmod(place, COLUMNS)
        tile = sheet[row * shot.sheet.tile_height :, column * shot.sheet.tile_width :]
        dots = tile[DOT : 6 * DOT : DOT, DOT : 4 * DOT : DOT, 0] > 128
        assert ["".join(str(int(dot)) for dot in line) for line in dots] == list(GLYPHS[step])


@pytest.mark.parametrize(("length", "steps"), [(0, [0]), (2, [0, 1, 2]), (1100, list(range(0, 1101, 100)))])
def test_frames_of_a_sheet_are_evenly_spaced(tmp_path: Path, length: int, steps: list[int]) -> None:
    """The first shows the reset and the last the last step, whatever the length."""
    sheet = ContactSheet(length)
    for step in range(length + 1):
        sheet.offer(step, np.zeros((20, 30, 3), np.uint8))

    assert list(sheet.write(tmp_path / "sheet.png").steps) == steps
    assert len(steps) <= TILES


def test_a_machine_that_can_film_says_how() -> None:
    """Where it can, the variables are told under which an environment is drawn."""
    assert camera_variables(catalog.load("cartpole"))["SDL_VIDEODRIVER"] == "dummy"
