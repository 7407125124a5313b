"""Splits read from files, in the layout of the paper's release.

::

    <directory>/train.json, valid.json, heldout.json                  each {"cases": [{"seed": 7}, ...]}
    <directory>/<environment>/train.json, valid.json, heldout.json    the same, for many environments

How seeds are derived from a secret instead is not told here but in ``core/cases.py``; that a split holds as many cases
as a run asks for is the caller's to check.
"""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evopolicygym.core.cases import CaseSet, Split
from evopolicygym.core.errors import UsageError

FILES = {Split.TRAIN: "train.json", Split.VALIDATION: "valid.json", Split.HELD_OUT: "heldout.json"}
"""The release's file for each split."""

_EXPECTED = 'a file with at least one case is due, such as {"cases": [{"seed": 7}, {"seed": 8}]}'


class _Case(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    seed: Annotated[int, Field(ge=0)]


class _Cases(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    cases: Annotated[list[_Case], Field(min_length=1)]


def read_directory(path: Path, environment: str) -> CaseSet:
    """Return the cases that a directory holds for one environment; its own folder there goes before files beside it.

    Raises ``UsageError`` where a file is missing or can't be read, or where two splits share a seed.
    """
    folder = path / environment if (path / environment).is_dir() else path
    seeds = {split: _seeds(folder / file) for split, file in FILES.items()}
    _refuse_overlap(seeds, folder)
    return CaseSet(environment, seeds)


def _seeds(file: Path) -> tuple[int, ...]:
    try:
        document = _Cases.model_validate_json(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file} can't be read ({error.strerror}): {_EXPECTED}.") from error
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in problem["loc"]) or "the file"
        raise UsageError(f"{file}: {where}: {problem['msg']}: {_EXPECTED}.") from error
    return tuple(case.seed for case in document.cases)


def _refuse_overlap(seeds: dict[Split, tuple[int, ...]], folder: Path) -> None:
    owner: dict[int, Split] = {}
    for split, numbers in seeds.items():
        for seed in numbers:
            if owner.setdefault(seed, split) is not split:
                raise UsageError(
                    f"{folder}: {FILES[owner[seed]]} and {FILES[split]} share a seed; a hidden case must be no train "
                    f"case, so each seed may stand in one file only."
                )
