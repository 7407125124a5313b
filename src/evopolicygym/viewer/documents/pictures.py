"""Pictures and films of episodes for the viewer."""

import base64
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from evopolicygym.analysis.run_tables import RunTables
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import Box, Dict, RecordedSpace, Tuple, recorded_space
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.trajectories import Step, read_steps
from evopolicygym.viewer.documents.document import document
from evopolicygym.viewer.documents.overview import ViewedRun
from evopolicygym.viewer.documents.reading import RecordedEpisode, film_file, film_read, film_shown, find_episode
from evopolicygym.viewer.documents.step_columns import step_files, thinned_steps
from evopolicygym.viewer.documents.submission import hidden_bundle

MOST_BLOCK = 1 << 20
"""Bytes of pictures that a document holds, before they are written as text; at least one step's."""
GRID = "minigrid"
"""The package whose pictures are no colours but the kinds, colours and states of things, a cell each."""


def picture_parts(space: RecordedSpace, name: str = "") -> Iterator[tuple[str, Box]]:
    """Yield those parts of a space that are pictures, with their names: bytes of (rows, columns[, 1 or 3])."""
    match space:
        case Box(is_picture=True):
            yield name, space
        case Dict():
            for key, part in space.spaces:
                yield from picture_parts(part, f"{name}.{key}" if name else key)
        case Tuple():
            for index, part in enumerate(space.spaces):
                yield from picture_parts(part, f"{name}[{index}]")


def without_pictures(value: Any, space: RecordedSpace) -> Any:  # noqa: ANN401 - a value of the space
    """Return a value of a space less its pictures; None of one that is nothing else."""
    match space:
        case Dict() if isinstance(value, dict):
            kept = {key: without_pictures(value.get(key), part) for key, part in space.spaces}
            return {key: part for key, part in kept.items() if part is not None}
        case Tuple() if isinstance(value, list | tuple):
            return [without_pictures(part, inner) for part, inner in zip(value, space.spaces, strict=False)]
        case Box(is_picture=True):
            return None
        case _:
            return value


def picture_layouts(space: RecordedSpace, environment: EnvironmentSpec) -> list[dict[str, Any]]:
    """Return what a page must know to draw the pictures of an observation."""
    return [
        {
            "name": name,
            "rows": part.shape[0],
            "columns": part.shape[1],
            "channels": part.shape[2] if len(part.shape) > 2 else 1,  # noqa: PLR2004 - a third axis
            "meaning": GRID if GRID in environment.packages and part.shape[2:] == (3,) else "colours",
        }
        for name, part in picture_parts(space)
    ]


def block_steps(space: RecordedSpace) -> int:
    """Return how many steps a block holds."""
    return max(1, MOST_BLOCK // max(1, sum(prod(part.shape) for _, part in picture_parts(space))))


def pictures_bundle(record: RunRecord, recorded: RecordedEpisode, block: int) -> dict[str, Any]:
    """Return a block of what the policy saw, at the steps that the episode's document has, as Base64 of bytes.

    Raises ``UsageError`` where there is no such block.
    """
    space = recorded_space(record.state.opened.observation_schema)
    parts = list(picture_parts(space))
    size, length = block_steps(space), recorded.episode.length if recorded.episode else 0
    wanted = thinned_steps(length)[block * size : (block + 1) * size] if length else []
    if not parts or not wanted or step_files(record, recorded.folder) is None:
        raise UsageError(f"There is no block {block} of pictures of this episode.")
    played = read_steps(
        recorded.folder, space, recorded_space(record.state.opened.action_schema), root=record.paths.root
    )
    observations = list(_seen(played or iter(()), wanted))
    return {
        "first": block * size,
        "count": len(observations),
        "pictures": {
            name: base64.b64encode(
                b"".join(np.asarray(_part(item, name), np.uint8).tobytes() for item in observations)
            ).decode()
            for name, _ in parts
        },
    }


def _seen(played: Iterator[Step], wanted: Sequence[int]) -> Iterator[Any]:
    """Yield what was seen after each of so many steps; the last of an episode's led to its final observation."""
    steps, before = set(wanted), None
    count = 0
    for count, step in enumerate(islice(played, wanted[-1] + 1), 1):
        if count - 1 in steps and step.observation is not None:
            yield step.observation
        before = step
    if count in steps and before is not None and before.final_observation is not None:
        yield before.final_observation


def _part(value: Any, name: str) -> Any:  # noqa: ANN401 - a value of any space
    for word in name.replace("[", ".").replace("]", "").split("."):
        if word:
            value = value[int(word)] if isinstance(value, list | tuple) else value[word]
    return value


MOST_CASES = 100
"""Cases whose films a document tells of."""
ORDER = {Split.HELD_OUT: 0, Split.VALIDATION: 1, Split.TRAIN: 2}


def films_bundle(runs: Iterable[tuple[ViewedRun, RunTables]]) -> list[dict[str, Any]]:
    """Return the cases of which two runs or more have a film, held-out ones first; each run has one of each case.

    Runs play the same case where they committed to the same cases.
    """
    cases: dict[tuple[str | None, Split, int], list[dict[str, Any]]] = defaultdict(list)
    for run, tables in runs:
        record = tables.record
        for (split, case), name in _films(tables):
            recorded = find_episode(record, name)
            file = film_file(record, recorded)
            cases[run.row.commitment, split, case].append(
                document(run.row, "agent", "seed")
                | {
                    "run": run.directory.id,
                    "submission": recorded.submission,
                    "name": name,
                    "episode_return": recorded.episode.episode_return if recorded.episode else recorded.episode_return,
                    "film": film_shown(film_read(record, file) if file else None, recorded),
                }
            )
    several = [(split, case, films) for (_, split, case), films in cases.items() if films[1:]]
    several.sort(key=lambda item: (ORDER[item[0]], item[1]))
    return [{"split": split.value, "case": case, "films": films} for split, case, films in several[:MOST_CASES]]


def _films(tables: RunTables) -> Iterator[tuple[tuple[Split, int], str]]:
    """Yield each case of which a run has a film, and the film's name: of the selected checkpoint, else the latest."""
    chosen: dict[tuple[Split, int], str] = {}
    selected = [submission for submission in tables.submissions if submission.is_selected]
    for submission in (*tables.submissions, *selected):
        for name in hidden_bundle(tables, submission)["films"]:
            recorded = find_episode(tables.record, name)
            chosen[recorded.split, recorded.case] = name
    yield from chosen.items()
