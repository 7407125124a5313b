"""The table of steps: read from an episode's files one row at a time."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError
from evopolicygym.core.run import RunState
from evopolicygym.core.spaces import Dict, Space, Text, Tuple, from_schema
from evopolicygym.core.strict_json import dumps
from evopolicygym.export.schema.columns import Json, Numbers
from evopolicygym.export.schema.rows import EpisodeRow, StepRow
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.trajectories import Step, read_steps


def episode_steps(paths: RunPaths, state: RunState, episode: EpisodeRow) -> Iterator[Step] | None:
    """Return an episode's steps as they were recorded; None where none were, or their files are gone."""
    if episode.submission is None:
        directory = paths.hidden_episode(Split(episode.split), episode.checkpoint, episode.position)
    else:
        number = state.submissions[episode.submission].first_global_episode + episode.position
        directory = paths.train_episode(episode.submission, number)
    found = read_steps(directory, *spaces(state), root=paths.root)
    return None if found is None else _as_many(found, episode, str(directory))


def spaces(state: RunState) -> tuple[Space, Space]:
    """Return the spaces of a run's observations and actions."""
    return from_schema(state.opened.observation_schema), from_schema(state.opened.action_schema)


def step_rows(paths: RunPaths, state: RunState, episode: EpisodeRow) -> Iterator[StepRow]:
    """Yield the rows of an episode's steps; nothing where none were recorded."""
    seen, done = spaces(state)
    for place, step in enumerate(episode_steps(paths, state, episode) or ()):
        last = place == episode.length - 1
        observation, observation_json = _cells(seen, step.observation)
        action, action_json = _cells(done, step.action)
        final, final_json = _cells(seen, step.final_observation)
        yield StepRow(
            run=episode.run,
            episode=episode.episode,
            split=episode.split,
            submission=episode.submission,
            checkpoint=episode.checkpoint,
            position=episode.position,
            case=episode.case,
            step=place,
            observation=observation,
            observation_json=observation_json,
            action=action,
            action_json=action_json,
            reward=step.reward,
            terminated=last and episode.terminated,
            truncated=last and episode.truncated,
            action_clipped=step.clipped,
            info=None if step.info is None else json_text(step.info),
            final_observation=final,
            final_observation_json=final_json,
        )


def json_text(value: Any) -> Json:  # noqa: ANN401 - any JSON value, numpy's included
    """Return a value as a JSON text that has a UTF-8: half of a surrogate pair is escaped."""
    return Json(dumps(value).encode("utf-8", "backslashreplace").decode())


def _as_many(found: Iterator[Step], episode: EpisodeRow, where: str) -> Iterator[Step]:
    """Yield the steps; raise ``RecordError`` where they are not as many as the episode had."""
    count = 0
    for step in found:
        count += 1
        yield step
    if count != episode.length:
        raise RecordError(f"{where} holds {count} steps, and the journal says that the episode had {episode.length}.")


def _cells(space: Space, value: Any) -> tuple[Numbers | None, Json | None]:  # noqa: ANN401 - a value of any space
    """Return a value as it stands in the column for numbers or in that for JSON."""
    if value is None:
        return None, None
    if isinstance(space, Dict | Tuple | Text):
        return None, json_text(value)
    return np.asarray(value, np.float64).ravel(), None
