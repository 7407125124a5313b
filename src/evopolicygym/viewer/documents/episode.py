"""The page of an episode: rewards, actions and observations as columns of numbers, pictures, film."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evopolicygym.analysis.run_tables import RunTables
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import Box, Discrete, recorded_space
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.rows import EpisodeRow
from evopolicygym.records.trajectories import read_steps
from evopolicygym.viewer.documents.document import document
from evopolicygym.viewer.documents.pictures import block_steps, picture_layouts, without_pictures
from evopolicygym.viewer.documents.reading import (
    MOST_TEXT,
    RecordedEpisode,
    below,
    excerpt,
    film_file,
    film_read,
    film_shown,
    find_episode,
    shown,
)
from evopolicygym.viewer.documents.run import EPISODE
from evopolicygym.viewer.documents.step_columns import Kept, flat, step_files, thinned


def episode_bundle(tables: RunTables, name: str) -> dict[str, Any]:
    """Return an episode by its name; raise ``UsageError`` where there is none of this name."""
    record, recorded = tables.record, find_episode(tables.record, name)
    episode, folder = recorded.episode, recorded.folder
    if episode is None and recorded.episode_return is None:
        raise UsageError(f"Episode {name} has not been played yet, or never will be.")
    failure = episode.failure if episode else recorded.failure
    film = film_file(record, recorded)
    selected = record.state.selected
    return {
        **document(recorded, "split", "submission", "position", "case", "episode_return"),
        **(document(row, *EPISODE, "seconds") if (row := _row(tables, recorded)) else {}),
        "name": name,
        "is_selected": selected is not None and selected.checkpoint == recorded.checkpoint,
        "reward_components": dict(episode.reward_components) if episode else {},
        "failed": document(failure),
        "post_hoc": episode is None,
        "series": _series(record, folder) if episode and step_files(record, folder) else None,
        "stdout": _text(record.paths, folder / "stdout.txt"),
        "stderr": _text(record.paths, folder / "stderr.txt"),
        "film": film_shown(film_read(record, film), recorded) if film else None,
    }


def _row(tables: RunTables, recorded: RecordedEpisode) -> EpisodeRow | None:
    """Return the row of an episode; None if it is known after the score was."""
    number = recorded.submission if recorded.split is Split.TRAIN else None
    key = recorded.split.value, number, recorded.checkpoint, recorded.position
    rows = {(row.split, row.submission, row.checkpoint, row.position): row for row in tables.episodes}
    return rows.get(key)


def _series(record: RunRecord, folder: Path) -> dict[str, Any]:
    opened = record.state.opened
    spaces = [recorded_space(schema) for schema in (opened.observation_schema, opened.action_schema)]
    environment = opened.task.environment
    kept: list[Kept] = []
    led_to: dict[str, float] = {}
    has_observations = False
    for step in read_steps(folder, *spaces, root=record.paths.root) or ():
        has_observations = has_observations or step.observation is not None
        kept.append((step.without_observation(), _numbers(step.observation, spaces[0]), dict(flat(step.action))))
        led_to = _numbers(step.final_observation, spaces[0])
    document = thinned(kept, led_to, environment.reward_components)
    for key, space, meanings in (
        ("observations", spaces[0], environment.observation),
        ("actions", spaces[1], environment.action),
    ):
        _name(document[key], space, meanings)
    action = spaces[1]
    labels = (action.labels or environment.action) if isinstance(action, Discrete) else ()
    document["action_labels"] = [shown(label) for label in labels]
    document["action_start"] = action.start if isinstance(action, Discrete) else 0
    document["pictures"] = picture_layouts(spaces[0], environment) if has_observations else []
    document["pictures_block"] = block_steps(spaces[0])
    return document


def _numbers(observation: Any, space: Any) -> dict[str, float]:  # noqa: ANN401 - a value of a space
    if observation is None:
        return {}
    kept = without_pictures(observation, space)
    return {} if kept is None else dict(flat(kept))


def _name(columns: list[dict[str, Any]], space: Any, meanings: Sequence[str]) -> None:  # noqa: ANN401 - a space
    """Give the elements of a vector their meanings, where the spec has one for each."""
    if not isinstance(space, Box):
        return
    names = space.fields or (meanings if len(meanings) == space.size else ())
    for column, meaning in zip(columns, names, strict=False):
        column["name"] = shown(f"{column['name']} {meaning}")


def _text(paths: RunPaths, path: Any) -> dict[str, object] | None:  # noqa: ANN401 - a path
    content = excerpt(below(paths.root, path), MOST_TEXT)
    return document(content) if content and content.text.strip() else None
