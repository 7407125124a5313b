"""The paper release's own layout of cases, read and refused."""

import json
from pathlib import Path

import pytest

from evopolicygym.core.cases import Split
from evopolicygym.core.errors import UsageError
from evopolicygym.core.task import BudgetRule, Task
from evopolicygym.environments.splits import read_directory
from evopolicygym.records import experiment
from evopolicygym.specs import catalog

GOOD = {"train.json": [1, 2, 3], "valid.json": [4], "heldout.json": [5, 6]}


def lay(folder: Path, splits: dict[str, list[int]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for file, seeds in splits.items():
        (folder / file).write_text(json.dumps({"cases": [{"seed": seed} for seed in seeds]}))
    return folder


@pytest.mark.parametrize("folder", [".", "acrobot"])
def test_splits_are_read_in_both_layouts(tmp_path: Path, folder: str) -> None:
    """Three files side by side, or in a folder of the environment's name, are its cases."""
    lay(tmp_path / folder, GOOD)
    cases = read_directory(tmp_path, "acrobot")

    assert cases.environment == "acrobot"
    assert cases.seeds == {Split.TRAIN: (1, 2, 3), Split.VALIDATION: (4,), Split.HELD_OUT: (5, 6)}


def test_the_environments_own_folder_goes_first(tmp_path: Path) -> None:
    """Files for one environment are not overruled by files for all."""
    lay(tmp_path, GOOD)
    lay(tmp_path / "acrobot", GOOD | {"train.json": [7]})

    assert read_directory(tmp_path, "acrobot").seed(Split.TRAIN, 0) == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, ""),
        ("{", "Invalid JSON"),
        ("[]", ""),
        ('{"cases": []}', "cases: "),
        ('{"cases": [{"seed": 7}, {"seed": "8"}]}', "cases.1.seed"),
        ('{"cases": [{"seed": true}]}', "cases.0.seed"),
        ('{"cases": [{"seed": -1}]}', "cases.0.seed"),
        ('{"cases": [{"seed": 7, "options": {}}]}', "cases.0.options"),
    ],
)
def test_a_bad_split_is_refused_by_its_file(tmp_path: Path, text: str | None, words: str) -> None:
    """A file that is missing or holds no cases is named, with what was expected."""
    lay(tmp_path, GOOD)
    (tmp_path / "valid.json").unlink()
    if text is not None:
        (tmp_path / "valid.json").write_text(text)
    with pytest.raises(UsageError) as refusal:
        read_directory(tmp_path, "acrobot")

    assert "valid.json" in str(refusal.value)
    assert words in str(refusal.value)


def test_splits_that_share_a_seed_are_refused(tmp_path: Path) -> None:
    """A hidden case that is also a train case is refused."""
    lay(tmp_path, GOOD | {"heldout.json": [5, 2]})

    with pytest.raises(UsageError, match=r"train\.json.*heldout\.json"):
        read_directory(tmp_path, "acrobot")


RELEASED = {
    "acrobot": "gym/acrobot",
    "continuous_car": "gym/continuouscar",
    "bipedal_walker": "gym/bipedal",
    "car_racing": "gym/racing",
    "reacher": "gym/reacher5",
    "half_cheetah": "gym/halfcheetah5",
    "ant": "gym/ant5",
    "pusher": "gym/pusher5",
    "door_key": "gymnasium/MiniGrid-DoorKey-16x16-v0",
    "four_rooms": "gymnasium/MiniGrid-FourRooms-v0",
    "key_corridor": "gymnasium/MiniGrid-KeyCorridorS4R3-v0",
    "obstructed_maze": "gymnasium/MiniGrid-ObstructedMaze-1Q-v1",
    "parking": "gymnasium/parking-v0",
    "roundabout": "gymnasium/roundabout-v0",
    "fetch_push": "gymnasium/FetchPush-v4",
    "fetch_pick_and_place": "gymnasium/FetchPickAndPlace-v4",
}


def release(folder: Path, name: str, **changes: str) -> Path:
    """Lay the three files of one environment as the paper's release has them."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, first, size in (("train", 0, 1024), ("valid", 5000, 64), ("heldout", 9000, 256)):
        document = {
            "cases": [{"seed": 47113601 + first + at} for at in range(size)],
            "env": name,
            "generator": {"kind": "seed", "seed": 0, "size": size},
            "ref": f"{name}/{split}",
            "split": split,
        }
        (folder / f"{split}.json").write_text(json.dumps(document | changes))
    return folder


@pytest.mark.parametrize(("environment", "name"), RELEASED.items())
@pytest.mark.parametrize("beside", [True, False])
def test_the_releases_own_files_are_taken(tmp_path: Path, environment: str, name: str, beside: bool) -> None:  # noqa: FBT001 - a case
    """Each of the sixteen is read from the release's folder, or from the directory of all of them, under its name."""
    folder = release(tmp_path / name, name)
    task = Task(catalog.load(environment), BudgetRule(1), validation_cases=64, held_out_cases=256)
    owner = experiment.begin(tmp_path / "runs", "default")
    cases = read_directory(folder if beside else tmp_path, environment, task.environment.id)
    experiment.keep_cases(owner, cases, folder, task)

    assert cases.environment == environment
    assert [len(cases.seeds[split]) for split in Split] == [1024, 64, 256]
    assert cases.seed(Split.HELD_OUT, 0) == 47113601 + 9000


def test_files_of_another_environment_or_split_are_refused(tmp_path: Path) -> None:
    """A file that says it is of something else is named, with what was asked for."""
    other = release(tmp_path / "other", "gym/reacher5")
    mixed = release(tmp_path / "mixed", "gym/acrobot", split="train")

    with pytest.raises(UsageError, match=r"gym/acrobot.*gym/reacher5"):
        read_directory(other, "acrobot")
    with pytest.raises(UsageError, match=r"valid\.json.*train"):
        read_directory(mixed, "acrobot")
