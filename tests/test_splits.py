"""The paper release's own layout of cases, read and refused."""

import json
from pathlib import Path

import pytest

from evopolicygym.core.cases import Split
from evopolicygym.core.errors import UsageError
from evopolicygym.environments.splits import read_directory

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
        (None, "No such file"),
        ("{", "the file: Invalid JSON"),
        ("[]", "the file: "),
        ('{"cases": []}', "cases: List should have at least 1"),
        ('{"cases": [{"seed": 7}, {"seed": "8"}]}', "cases.1.seed: Input should be a valid integer"),
        ('{"cases": [{"seed": true}]}', "cases.0.seed"),
        ('{"cases": [{"seed": -1}]}', "cases.0.seed: Input should be greater than or equal to 0"),
        ('{"cases": [{"seed": 7, "options": {}}]}', "cases.0.options: Extra inputs are not permitted"),
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
    assert 'such as {"cases": [{"seed": 7}' in str(refusal.value)


def test_splits_that_share_a_seed_are_refused(tmp_path: Path) -> None:
    """A hidden case that is also a train case is refused."""
    lay(tmp_path, GOOD | {"heldout.json": [5, 2]})

    with pytest.raises(UsageError, match=r"train\.json and heldout\.json share a seed"):
        read_directory(tmp_path, "acrobot")
