"""Reads splits from files in the layout of the paper's release.

::

    <directory>/train.json, valid.json, heldout.json                  each {"cases": [{"seed": 7}, ...]}
    <directory>/<environment>/train.json, valid.json, heldout.json    the same, for many environments
    <directory>/gym/acrobot/…, <directory>/gymnasium/parking-v0/…     as the release names its folders

The release's files also name their environment and split (``env``, ``split``), which are checked, and their generator
(``generator``, ``ref``), which is ignored. The caller checks that a split has enough cases.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from evopolicygym.core.cases import CaseSet, Split
from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import UsageError

FILES = {Split.TRAIN: "train.json", Split.VALIDATION: "valid.json", Split.HELD_OUT: "heldout.json"}
"""The release's file for each split."""

RELEASE_NAMES: Mapping[str, str] = {
    "acrobot": "gym/acrobot",
    "continuous_car": "gym/continuouscar",
    "bipedal_walker": "gym/bipedal",
    "car_racing": "gym/racing",
    "reacher": "gym/reacher5",
    "half_cheetah": "gym/halfcheetah5",
    "ant": "gym/ant5",
    "pusher": "gym/pusher5",
}
"""Names of environments in the release; all others are ``gymnasium/`` with the gymnasium id."""

_EXPECTED = 'expected a file with at least one case, such as {"cases": [{"seed": 7}, {"seed": 8}]}'


class _Case(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    seed: Annotated[int, Field(ge=0)]


class _Cases(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    cases: Annotated[list[_Case], Field(min_length=1)]
    env: str = ""
    split: str = ""
    generator: Any = None
    ref: Any = None


def read_directory(path: Path, environment: str, gymnasium_id: str = "") -> CaseSet:
    """Return a directory's cases for an environment, from its own folder if there is one.

    Raises ``UsageError`` if a file is missing, can't be read or belongs to another environment or split, or if two
    splits share a seed.
    """
    names = (environment, RELEASE_NAMES.get(environment, f"gymnasium/{gymnasium_id or environment}"))
    folder = next((path / name for name in names if (path / name).is_dir()), path)
    seeds = {split: _seeds(folder / file, split, names) for split, file in FILES.items()}
    _refuse_overlap(seeds, folder)
    return CaseSet(environment, seeds)


def _seeds(file: Path, split: Split, names: tuple[str, ...]) -> tuple[int, ...]:
    try:
        document = decoder(_Cases).json(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file} can't be read ({error.strerror}): {_EXPECTED}.") from error
    except Undecodable as error:
        problem = error.problems[0]
        raise UsageError(f"{file}: {problem.where or 'the file'}: {problem.message}: {_EXPECTED}.") from error
    if document.env and document.env not in names:
        raise UsageError(f"{file}: expected cases of {' or '.join(names)}, got cases of {document.env[:100]!r}.")
    if document.split and document.split != Path(FILES[split]).stem:
        raise UsageError(f"{file}: expected the split {Path(FILES[split]).stem!r}, got {document.split[:100]!r}.")
    return tuple(case.seed for case in document.cases)


def _refuse_overlap(seeds: dict[Split, tuple[int, ...]], folder: Path) -> None:
    owner: dict[int, Split] = {}
    for split, numbers in seeds.items():
        for seed in numbers:
            if owner.setdefault(seed, split) is not split:
                raise UsageError(
                    f"{folder}: {FILES[owner[seed]]} and {FILES[split]} share a seed: a hidden case must not be a "
                    f"train case, so each seed may occur in one file only."
                )
