"""Train episodes as Minari data sets, one for each task and agent with its model.

They contain all episodes with recorded steps, those of failed policies included. ``minari.load_dataset`` opens them if
``MINARI_DATASETS_PATH`` is the directory.
"""

import hashlib
import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evopolicygym.analysis.run_tables import RunTables
from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Text, Tuple, from_schema
from evopolicygym.export.exporters import BaseExporter, WrittenFile, needs, replace_directory
from evopolicygym.records.rows import EpisodeRow
from evopolicygym.records.tables import episode_steps
from evopolicygym.records.trajectories import Step

with needs("The export format 'minari'"):
    import gymnasium
    import minari
    import PIL.Image  # noqa: F401 - Minari's storage imports it without declaring it
    import pyarrow as pa  # noqa: F401 - as above
    from gymnasium import spaces as gymnasium_spaces
    from minari.data_collector.episode_buffer import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage
    from minari.namespace import NAMESPACE_METADATA_FILENAME

NAMESPACE = "evopolicygym"
CHARACTERS = "".join(map(chr, range(32, 127)))
"""The charset of Text spaces that don't say theirs."""


@dataclass(slots=True)
class DataSet:
    """A data set in progress."""

    name: str
    root: Path
    storage: Any
    first: RunTables
    """Its first run."""
    n_episodes: int = 0
    n_steps: int = 0


class Exporter(BaseExporter):
    """Writes Minari data sets, stored as Parquet."""

    tables: ClassVar[tuple[str, ...]] = ()

    def __init__(self, directory: Path, tables: Sequence[str]) -> None:
        super().__init__(directory, tables)
        self._sets: dict[tuple[str, ...], DataSet] = {}
        self._left_out = 0

    def add(self, run: RunTables) -> None:
        """Write a run's train episodes into the data set of its task and entry."""
        for episode in run.episodes:
            if episode.submission is None:
                continue
            if not run.record.state.opened.observation_schema:  # a record of the paper's release
                self._left_out += 1
                continue
            steps = list(episode_steps(run.record.paths, run.record.state, episode) or ())
            if not steps:
                self._left_out += 1
                continue
            _append(self._set_of(run), run, episode, steps)

    def finish(self) -> list[WrittenFile]:
        """Return the data sets, which are complete already."""
        if self._left_out:
            self.notes.append(f"{self._left_out} train episodes have no recorded steps or no spaces and are left out.")
        if not self._sets:
            self.notes.append("No train episode with recorded steps was found; no data set was written.")
        sets = self._sets.values()
        return [WrittenFile(item.name, item.root, item.n_steps, _n_bytes(item.root)) for item in sets]

    def abort(self) -> None:
        """Remove all data sets, and namespaces that have no other."""
        for data_set in self._sets.values():
            replace_directory(data_set.root)
            data_set.root.rmdir()
            for namespace in (data_set.root.parent, data_set.root.parent.parent):
                if [path.name for path in namespace.iterdir()] == [NAMESPACE_METADATA_FILENAME]:
                    replace_directory(namespace)
                    namespace.rmdir()

    def _set_of(self, run: RunTables) -> DataSet:
        row = run.row
        key = (row.task, row.label or row.agent_kind, row.model or "", row.effort or "")
        if key not in self._sets:
            self._sets[key] = self._create(run, key)
        data_set = self._sets[key]
        opened, before = run.record.state.opened, data_set.first.record.state.opened
        if (opened.observation_schema, opened.action_schema) != (before.observation_schema, before.action_schema):
            raise UsageError(
                f"The runs {before.run_id} and {row.run_id} of {row.agent} on {row.task} have different spaces and "
                f"can't be in one data set. Export them into separate directories."
            )
        return data_set

    def _create(self, run: RunTables, key: tuple[str, ...]) -> DataSet:
        task, *entry = key
        name = f"{NAMESPACE}/{plain(task)}/{plain('-'.join(part for part in entry if part))}-v0"
        if any(name == item.name for item in self._sets.values()):  # they differ only in characters that were replaced
            name = f"{name.removesuffix('-v0')}-{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:8]}-v0"
        root = (self.directory / name).resolve()  # pyarrow doesn't accept a relative path
        replace_directory(root)
        for namespace in (self.directory / NAMESPACE, root.parent):
            (namespace / NAMESPACE_METADATA_FILENAME).write_text("{}", encoding="utf-8")
        observations, actions = _spaces(run)
        storage = MinariStorage.new(
            root / "data",
            observation_space=to_gymnasium(observations),
            action_space=to_gymnasium(actions),
            env_spec=_gymnasium_spec(run),
            data_format="parquet",
            jpeg_encoding=False,
        )
        row = run.row
        storage.update_metadata(
            {
                "dataset_id": name,
                "minari_version": minari.__version__,
                "algorithm_name": " ".join([row.agent, *filter(None, (row.model, row.effort))]),
                "description": f"Train episodes of EvoPolicyGym's task {row.task} ({row.environment_id}), played by "
                f"the policies that {row.agent} submitted.",
                "requirements": [f"{package}=={version}" for package, version in _packages(run)],
            }
        )
        return DataSet(name, root, storage, run)


def _spaces(run: RunTables) -> tuple[Space, Space]:
    opened = run.record.state.opened
    return from_schema(opened.observation_schema), from_schema(opened.action_schema)


def to_gymnasium(space: Space) -> "gymnasium_spaces.Space[Any]":
    """Return the gymnasium space of a space."""
    match space:
        case Discrete():
            return gymnasium_spaces.Discrete(space.n, start=space.start)
        case Box():
            low, high = space.limits()
            dtype: Any = np.dtype(space.dtype)
            return gymnasium_spaces.Box(low.astype(dtype), high.astype(dtype), space.shape, dtype.type)
        case MultiDiscrete():
            return gymnasium_spaces.MultiDiscrete(np.array(space.nvec), start=np.array(space.start))
        case MultiBinary():
            return gymnasium_spaces.MultiBinary(space.shape)
        case Text():
            characters = space.characters or CHARACTERS
            return gymnasium_spaces.Text(space.max_length, min_length=space.min_length, charset=characters)
        case Tuple():
            return gymnasium_spaces.Tuple([to_gymnasium(part) for part in space.spaces])
        case Dict():
            return gymnasium_spaces.Dict({name: to_gymnasium(part) for name, part in space.spaces})


def plain(name: str) -> str:
    """Return a name as a part of a data set's id, with other characters replaced."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-") or "unnamed"


def _append(data_set: DataSet, run: RunTables, episode: EpisodeRow, steps: list[Step]) -> None:
    observations, actions = _spaces(run)
    ends = np.zeros((2, len(steps)), bool)
    ends[:, -1] = episode.terminated, episode.truncated
    buffer = EpisodeBuffer(
        id=data_set.n_episodes,
        observations=_columns(observations, [*(step.observation for step in steps), steps[-1].final_observation]),
        actions=_columns(actions, [step.action for step in steps]),
        rewards=np.array([step.reward for step in steps], np.float64),
        terminations=ends[0],
        truncations=ends[1],
    )
    data_set.storage.update_episodes([buffer])
    metadata = {name: getattr(episode, name) for name in METADATA}
    data_set.storage.update_episode_metadata([metadata], [data_set.n_episodes])
    data_set.n_episodes += 1
    data_set.n_steps += len(steps)


METADATA = ("run_id", "submission", "position", "case", "checkpoint", "failure", "success", "trajectory_sha256")
"""Columns of the table of episodes that are the metadata of an episode."""


def _columns(space: Space, values: Sequence[Any]) -> Any:  # noqa: ANN401 - an array a leaf
    """Return recorded values as an array for each leaf of the space, in the space's dtype."""
    match space:
        case Dict():
            return {name: _columns(part, [value[name] for value in values]) for name, part in space.spaces}
        case Tuple():
            return tuple(_columns(part, [value[at] for value in values]) for at, part in enumerate(space.spaces))
        case Text():
            return [str(value).encode("utf-8", "backslashreplace").decode() for value in values]
        case Box():
            return np.array(values, np.dtype(space.dtype)).reshape(len(values), *space.shape)
        case MultiBinary():
            return np.array(values, np.int8)
        case _:
            return np.array(values, np.int64)


def _gymnasium_spec(run: RunTables) -> Any:  # noqa: ANN401 - gymnasium's spec or None
    """Return gymnasium's spec of an environment that needs no simulator's package; None for others."""
    spec = run.record.state.opened.task.environment
    known = gymnasium.registry.get(spec.id)
    if known is None or not isinstance(known.entry_point, str):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gymnasium.envs.registration.EnvSpec(
            id=known.id,
            entry_point=known.entry_point,
            reward_threshold=known.reward_threshold,
            max_episode_steps=spec.max_steps,
            kwargs={**known.kwargs, **spec.arguments},
        )


def _packages(run: RunTables) -> list[tuple[str, str]]:
    versions = run.record.state.opened.versions
    return [(package, version) for package, version in versions.items() if package != "python"]


def _n_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
