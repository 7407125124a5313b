"""Train episodes as Minari data sets: one for each task and entry, as ``minari.load_dataset`` opens them.

An entry is an agent with its model. Only episodes whose steps were recorded whole are in it, those of a policy that
failed included, as the environment saw them. How a data set is found is Minari's business: set ``MINARI_DATASETS_PATH``
to the directory.
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

from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Text, Tuple
from evopolicygym.export.exporters import BaseExporter, WrittenFile, needs, replace_directory
from evopolicygym.export.schema.rows import EpisodeRow
from evopolicygym.export.schema.steps import episode_steps, spaces
from evopolicygym.export.schema.tables import RunTables
from evopolicygym.records.trajectories import Step

with needs("The export format 'minari'"):
    import gymnasium
    import minari
    import PIL.Image  # noqa: F401 - Minari's storage imports it without asking for it
    import pyarrow as pa  # noqa: F401 - as above
    from gymnasium import spaces as gymnasium_spaces
    from minari.data_collector.episode_buffer import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage
    from minari.namespace import NAMESPACE_METADATA_FILENAME

NAMESPACE = "evopolicygym"
CHARACTERS = "".join(map(chr, range(32, 127)))
"""What a Text of ours is said to be made of; our spaces don't say."""


@dataclass(slots=True)
class DataSet:
    """One data set that is being written."""

    name: str
    root: Path
    storage: Any
    first: RunTables
    """The run that it was begun for."""
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
            found = episode_steps(run.record.paths, run.record.state, episode)
            steps = list(found or ())
            if not steps:
                self._left_out += 1
                continue
            _append(self._set_of(run), run, episode, steps)

    def finish(self) -> list[WrittenFile]:
        """Return the data sets; they are complete after each episode."""
        if self._left_out:
            self.notes.append(f"{self._left_out} train episodes have no recorded steps and are left out.")
        if not self._sets:
            self.notes.append("No train episode with recorded steps was found; no data set was written.")
        return [WrittenFile(one.name, one.root, one.n_steps, _n_bytes(one.root)) for one in self._sets.values()]

    def give_up(self) -> None:
        """Leave nothing of what was begun."""
        for one in self._sets.values():
            replace_directory(one.root)
            one.root.rmdir()

    def _set_of(self, run: RunTables) -> DataSet:
        row = run.row
        key = (row.task, row.agent, row.model or "", row.effort or "")
        if key not in self._sets:
            self._sets[key] = self._begun(run, key)
        found = self._sets[key]
        opened, before = run.record.state.opened, found.first.record.state.opened
        if (opened.observation_schema, opened.action_schema) != (before.observation_schema, before.action_schema):
            raise UsageError(
                f"The runs {before.run_id} and {row.run} of {row.agent} on {row.task} have different spaces and can't "
                f"be in one data set; export them into directories of their own."
            )
        return found

    def _begun(self, run: RunTables, key: tuple[str, ...]) -> DataSet:
        task, *entry = key
        name = f"{NAMESPACE}/{plain(task)}/{plain('-'.join(part for part in entry if part))}-v0"
        if any(name == one.name for one in self._sets.values()):  # names that differ only in what Minari can't spell
            name = f"{name.removesuffix('-v0')}-{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:8]}-v0"
        root = (self.directory / name).resolve()  # pyarrow would take a relative one for relative to itself
        replace_directory(root)
        for namespace in (self.directory / NAMESPACE, root.parent):
            (namespace / NAMESPACE_METADATA_FILENAME).write_text("{}", encoding="utf-8")
        seen, done = spaces(run.record.state)
        storage = MinariStorage.new(
            root / "data",
            observation_space=to_gymnasium(seen),
            action_space=to_gymnasium(done),
            env_spec=_registered(run),
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


def to_gymnasium(space: Space) -> "gymnasium_spaces.Space[Any]":
    """Return a space of ours as gymnasium's."""
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
            return gymnasium_spaces.Text(space.max_length, min_length=0, charset=CHARACTERS)
        case Tuple():
            return gymnasium_spaces.Tuple([to_gymnasium(part) for part in space.spaces])
        case Dict():
            return gymnasium_spaces.Dict({name: to_gymnasium(part) for name, part in space.spaces})


def plain(name: str) -> str:
    """Return a name with nothing in it but what a data set's id may have."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-") or "unnamed"


def _append(data_set: DataSet, run: RunTables, episode: EpisodeRow, steps: list[Step]) -> None:
    seen, done = spaces(run.record.state)
    ends = np.zeros((2, len(steps)), bool)
    ends[:, -1] = episode.terminated, episode.truncated
    buffer = EpisodeBuffer(
        id=data_set.n_episodes,
        observations=_columns(seen, [*(step.observation for step in steps), steps[-1].final_observation]),
        actions=_columns(done, [step.action for step in steps]),
        rewards=np.array([step.reward for step in steps], np.float64),
        terminations=ends[0],
        truncations=ends[1],
    )
    data_set.storage.update_episodes([buffer])
    metadata = {name: getattr(episode, name) for name in METADATA}
    data_set.storage.update_episode_metadata([metadata], [data_set.n_episodes])
    data_set.n_episodes += 1
    data_set.n_steps += len(steps)


METADATA = ("run", "submission", "position", "case", "checkpoint", "failure", "success", "trajectory_sha256")
"""Columns of the table of episodes that stand in an episode's metadata."""


def _columns(space: Space, values: Sequence[Any]) -> Any:  # noqa: ANN401 - an array a leaf
    """Return values, as they were recorded, as an array a leaf of the space, of the space's own dtype."""
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


def _registered(run: RunTables) -> Any:  # noqa: ANN401 - gymnasium's spec or None
    """Return how gymnasium makes the environment, where it knows that without a simulator's package; else None."""
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
