"""Minari data sets: what Minari opens is what the environments of the record saw and gave."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import minari
import numpy as np
import pytest
from gymnasium import spaces

from evopolicygym.analysis.run_tables import load_runs
from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import Box, to_schema
from evopolicygym.environments.spaces import from_gymnasium
from evopolicygym.export.exporters import export
from evopolicygym.export.formats.minari import plain, to_gymnasium
from evopolicygym.specs import catalog
from exported import film, recorded, small_run
from fakes import charged, opening, published, trained
from made_up import opened
from simulators import Composite, spec

pytestmark = pytest.mark.made_up


def exported(runs: Path, to: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Export runs and open every data set that Minari finds."""
    export("minari", opened(runs), to)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(to))
    return {name: minari.load_dataset(name) for name in minari.list_local_datasets()}


def returns_of(runs: Path) -> list[float]:
    """Return the train returns of runs, as their records have them."""
    return [one.episode_return for one in load_runs(runs).episodes if one.split == "train"]


def test_minari_opens_what_was_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Observations, actions and rewards of every kind of space come back, and the returns are ours."""
    small_run(tmp_path / "runs", spec("Composite"), "players:make_composer")
    ((name, found),) = exported(tmp_path / "runs", tmp_path / "out", monkeypatch).items()
    steps = [step for step in load_runs(tmp_path / "runs").steps() if step.position == 0 and step.split == "train"]
    seen = json.loads(steps[0].observation_json or "")
    episode = found[0]

    assert name == "evopolicygym/composite/players-make_composer-v0"
    assert returns_of(tmp_path / "runs") == [math.fsum(one.rewards) for one in found]
    assert (len(episode.observations["word"]), episode.actions["aim"].dtype) == (len(steps) + 1, np.float32)
    assert episode.observations["picture"][0].tolist() == seen["picture"]
    assert [part[0].tolist() for part in episode.observations["pair"]] == seen["pair"]
    assert episode.observations["word"][0] == seen["word"]
    assert [json.loads(step.action_json or "")["aim"] for step in steps] == episode.actions["aim"].tolist()
    assert [one["failure"] for one in found.storage.get_episode_metadata([0, 1])] == [None, "error"]


def test_pictures_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are stored as they were seen, not as JPEG."""
    paths = film(tmp_path / "runs", 4, 40)
    (found,) = exported(tmp_path / "runs", tmp_path / "out", monkeypatch).values()
    with np.load(paths.train_episode(0, 0) / "observations.npz") as archive:
        pictures = archive["observations"]

    assert (found[0].observations == pictures).all()
    assert (found[0].terminations.tolist(), found[0].truncations.any()) == ([False, False, False, True], False)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["cartpole", "door_key", "parking"])
def test_environments_of_the_house_can_be_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Arrays, MiniGrid's mission and dicts of goals are opened, with spaces that hold what was seen."""
    small_run(tmp_path / "runs", catalog.load(name), "random", budget=1)
    (found,) = exported(tmp_path / "runs", tmp_path / "out", monkeypatch).values()
    episode = found[0]
    first = (
        {key: values[0] for key, values in episode.observations.items()}
        if isinstance(episode.observations, dict)
        else episode.observations[0]
    )

    assert returns_of(tmp_path / "runs") == [math.fsum(one.rewards) for one in found]
    assert found.observation_space.contains(first)
    assert found.action_space.contains(episode.actions[0])


def test_names_become_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that differ only in what an id can't hold are data sets of their own, and none lies outside."""
    agents = ["../../a b", "../../a-b", "=é"]
    for place, agent in enumerate(agents):
        paths = film(tmp_path / "runs" / str(place), 3, 12)
        paths.journal.unlink()
        _again(paths.root, opening(run_id=str(place), agent=AgentConfig(agent)))
    found = exported(tmp_path / "runs", tmp_path / "out" / "deep", monkeypatch)

    assert len(found) == len(agents)
    assert {"evopolicygym/toy/a-b-v0", "evopolicygym/toy/unnamed-v0"} <= found.keys()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["deep"]


def _again(root: Path, opened: Any) -> None:
    """Write the journal of a film anew, opened otherwise."""
    schema = to_schema(Box((12, 12, 3), "uint8", 0.0, 255.0))
    recorded(root, [replace(opened, observation_schema=schema), charged(0, 1), trained(0, 0), published(0)])


def test_runs_without_steps_are_said_to_have_none(tmp_path: Path) -> None:
    """A run of which nothing can be exported makes no data set, and that is told."""
    recorded(tmp_path / "runs" / "run", [opening()])
    told = export("minari", opened(tmp_path / "runs"), tmp_path / "out")

    assert told.written == []
    assert len(told.notes) == 1


def test_tables_can_not_be_chosen(tmp_path: Path) -> None:
    """Minari's data sets have no tables, and choosing some is refused."""
    recorded(tmp_path / "runs" / "run", [opening()])
    with pytest.raises(UsageError, match="minari"):
        export("minari", opened(tmp_path / "runs"), tmp_path / "out", ["runs"])


@pytest.mark.parametrize(
    "space",
    [
        Composite.observation_space,
        Composite.action_space,
        spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
        spaces.Discrete(3, start=-1),
    ],
)
def test_spaces_come_back(space: spaces.Space[Any]) -> None:
    """A space of gymnasium's that became ours becomes gymnasium's again."""
    ours = from_gymnasium(space)

    assert from_gymnasium(to_gymnasium(ours)) == ours


def test_plain_names_have_nothing_to_escape() -> None:
    """What is left of a name are letters, digits, - and _."""
    assert [plain(name) for name in ("../a b/", "../..", "x_1")] == ["a-b", "unnamed", "x_1"]
