"""What a policy saw as pictures: which parts of an observation are some, and their bytes, a block of steps each."""

import base64
from collections.abc import Iterator, Sequence
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import Box, Dict, Space, Tuple, from_schema
from evopolicygym.core.task import EnvironmentSpec
from evopolicygym.records.playback import Step, steps
from evopolicygym.records.reader import RunRecord
from evopolicygym.viewer.documents.episode_names import EpisodePlace
from evopolicygym.viewer.documents.step_columns import thinned_steps
from evopolicygym.viewer.documents.step_files import step_files

MOST_BLOCK = 1 << 20
"""Bytes of pictures that a document holds, before they are written as text; at least one step's."""
SMALLEST = 3
"""Rows and columns from which on bytes are looked at as a picture."""
GRID = "minigrid"
"""The package whose pictures are no colours but the kinds, colours and states of things, a cell each."""


def picture_parts(space: Space, name: str = "") -> Iterator[tuple[str, Box]]:
    """Yield those parts of a space that are pictures, with their names: bytes of (rows, columns[, 1 or 3])."""
    match space:
        case Box(shape=(rows, columns, *channels), dtype="uint8"):
            if min(rows, columns) >= SMALLEST and channels in ([], [1], [3]):
                yield name, space
        case Dict():
            for key, part in space.spaces:
                yield from picture_parts(part, f"{name}.{key}" if name else key)
        case Tuple():
            for place, part in enumerate(space.spaces):
                yield from picture_parts(part, f"{name}[{place}]")


def without_pictures(value: Any, space: Space) -> Any:  # noqa: ANN401 - a value of the space
    """Return a value of a space less its pictures; None of one that is nothing else."""
    match space:
        case Dict() if isinstance(value, dict):
            kept = {key: without_pictures(value.get(key), part) for key, part in space.spaces}
            return {key: part for key, part in kept.items() if part is not None}
        case Tuple() if isinstance(value, list | tuple):
            return [without_pictures(part, inner) for part, inner in zip(value, space.spaces, strict=False)]
        case Box() if any(picture_parts(space)):
            return None
        case _:
            return value


def picture_layouts(space: Space, environment: EnvironmentSpec) -> list[dict[str, Any]]:
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


def block_steps(space: Space) -> int:
    """Return how many steps a block holds."""
    return max(1, MOST_BLOCK // max(1, sum(prod(part.shape) for _, part in picture_parts(space))))


def pictures_bundle(record: RunRecord, place: EpisodePlace, block: int) -> dict[str, Any]:
    """Return a block of what the policy saw, at the steps that the episode's document has, as Base64 of bytes.

    Raises ``UsageError`` where there is no such block.
    """
    space = from_schema(record.state.opened.observation_schema)
    parts = list(picture_parts(space))
    size, length = block_steps(space), place.episode.length if place.episode else 0
    wanted = thinned_steps(length)[block * size : (block + 1) * size] if length else []
    if not parts or not wanted or step_files(record, place.folder) is None:
        raise UsageError(f"There is no block {block} of pictures of this episode.")
    played = steps(place.folder, space, from_schema(record.state.opened.action_schema), root=record.paths.root)
    seen = list(_seen(played or iter(()), wanted))
    return {
        "first": block * size,
        "count": len(seen),
        "pictures": {
            name: base64.b64encode(b"".join(np.asarray(_part(one, name), np.uint8).tobytes() for one in seen)).decode()
            for name, _ in parts
        },
    }


def _seen(played: Iterator[Step], wanted: Sequence[int]) -> Iterator[Any]:
    """Yield what was seen after each of so many steps; the last of an episode's led to its final observation."""
    places, before = set(wanted), None
    count = 0
    for count, step in enumerate(islice(played, wanted[-1] + 1), 1):
        if count - 1 in places and step.observation is not None:
            yield step.observation
        before = step
    if count in places and before is not None and before.final_observation is not None:
        yield before.final_observation


def _part(value: Any, name: str) -> Any:  # noqa: ANN401 - a value of any space
    for word in name.replace("[", ".").replace("]", "").split("."):
        if word:
            value = value[int(word)] if isinstance(value, list | tuple) else value[word]
    return value
