"""Uploads of exports to a hub of data sets, by Hugging Face's client.

Only ``push`` uploads, and only the files of its plan. The hub and the account are settings of the client
(``HF_ENDPOINT``, ``HF_TOKEN``, ``hf auth login``).
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.errors import EvoPolicyGymError, UsageError
from evopolicygym.export.exporters import WrittenFile, needs
from evopolicygym.records.rows import TABLES, ValueKind, columns
from evopolicygym.version import __version__

REPOSITORY = re.compile(r"hub:(\w[\w.-]{0,95}/\w[\w.-]{0,95})", re.ASCII)
KIND = "dataset"
CARD = "README.md"
MARK = "Written by evopolicygym"
"""What a card says that nobody wrote by hand."""
REGISTRY = "registry.json"
TASK_FILE = "task.toml"
"""A directory with this file is a Harbor task."""
TASKS = "tasks"
"""Directory of the tasks in their repository."""
FEATURES = {
    ValueKind.TEXT: "dtype: string",
    ValueKind.INTEGER: "dtype: int64",
    ValueKind.NUMBER: "dtype: float64",
    ValueKind.BOOLEAN: "dtype: bool",
    ValueKind.TIME: "dtype: timestamp[ms]",
    ValueKind.JSON: "dtype: string",
    ValueKind.NUMBERS: "list: float64",
    ValueKind.PICTURE: "dtype: image",
}
"""Types of columns as a card has them."""
TABLES_CARD = """\
---
pretty_name: EvoPolicyGym runs
tags:
- evopolicygym
- reinforcement-learning
configs:
{configs}dataset_info:
{features}---

# EvoPolicyGym runs

Runs in which an agent improved an executable policy through feedback, as tables. The column `run_id` joins them; each
column's meaning and unit is in the schema of its Parquet file (`pyarrow.parquet.read_schema`).

| table | rows |
|---|---|
{rows}
```python
from datasets import load_dataset

{first} = load_dataset("{repository}", "{first}", split="train")
```

{mark} {version}.
"""
TASKS_CARD = """\
---
pretty_name: EvoPolicyGym tasks
tags:
- evopolicygym
- harbor
viewer: false
---

# EvoPolicyGym tasks

{count} tasks in Harbor's form, each in a directory of `tasks/`; `registry.json` lists them. A task asks an agent to
improve an executable policy through feedback, and pays it 0 for random play and 1 for a reference policy.

Written by evopolicygym {version}.
"""


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file to upload."""

    path: Path
    path_in_repo: str

    @property
    def n_bytes(self) -> int:
        """Its present size."""
        return self.path.stat().st_size


@dataclass(frozen=True, slots=True)
class HubUpload:
    """The plan of an upload."""

    repository: str
    """``OWNER/NAME`` of a data set."""
    files: tuple[HubFile, ...]
    is_private: bool = True

    @property
    def visibility(self) -> str:
        """``private`` or ``public``."""
        return "private" if self.is_private else "public"


def repository_of(target: str) -> str:
    """Return the ``OWNER/NAME`` of ``hub:OWNER/NAME``; raise ``UsageError`` for anything else."""
    if match := REPOSITORY.fullmatch(target):
        return match[1]
    raise UsageError(f"Invalid target of a push: expected hub:OWNER/NAME, such as hub:me/acrobot-runs, got {target!r}.")


def tables_upload(
    written: Sequence[WrittenFile], directory: Path, repository: str, *, is_private: bool = True
) -> HubUpload:
    """Return the upload of exported tables, with a card that has a config for each table.

    The card is ``README.md`` in the directory; an existing card is kept.
    """
    card = _write_if_missing(directory / CARD, tables_card(written, repository))
    return HubUpload(repository, (*(HubFile(table.path, table.path.name) for table in written), card), is_private)


def tables_card(written: Sequence[WrittenFile], repository: str) -> str:
    """Return the card of exported tables, which declares the types of their columns."""
    first = written[0].name
    configs = (
        f"- config_name: {table.name}\n  data_files: {table.path.name}\n" + "  default: true\n" * (table.name == first)
        for table in written
    )
    return TABLES_CARD.format(
        configs="".join(configs),
        features="".join(f"- config_name: {table.name}\n  features:\n{_features(table)}" for table in written),
        rows="".join(f"| {table.name} | {table.rows:,} |\n" for table in written),
        repository=repository,
        first=first,
        mark=MARK,
        version=__version__,
    )


def _features(table: WrittenFile) -> str:
    texts = dict.fromkeys((ValueKind.TIME, ValueKind.PICTURE), FEATURES[ValueKind.TEXT])
    kinds = FEATURES | texts if table.path.suffix == ".jsonl" else FEATURES
    return "".join(f"  - name: {column.name}\n    {kinds[column.kind]}\n" for column in columns(TABLES[table.name]))


def tasks_upload(directory: Path, repository: str, url: str = "", *, is_private: bool = True) -> HubUpload:
    """Return the upload of the Harbor tasks in a directory: its subdirectories with a ``task.toml``.

    A ``registry.json``, which lists them as a Harbor data set, and a card are written into the directory. ``url`` is
    that of the repository's git; by default, the one on the client's hub.
    """
    tasks = sorted(file.parent for file in directory.glob(f"*/{TASK_FILE}"))
    if not tasks:
        raise UsageError(f"No tasks in {directory}: expected subdirectories with a {TASK_FILE}.")
    git = url or f"{_endpoint()}/datasets/{repository}"
    entries = [{"name": task.name, "git_url": git, "path": f"{TASKS}/{task.name}"} for task in tasks]
    text = "Improve an executable policy through feedback."
    registry = [{"name": "evopolicygym", "version": __version__, "description": text, "tasks": entries}]
    (directory / REGISTRY).write_text(json.dumps(registry, indent=2) + "\n", encoding="utf-8")
    card = _write_if_missing(directory / CARD, TASKS_CARD.format(count=len(tasks), version=__version__))
    paths = (file for task in tasks for file in sorted(task.rglob("*")) if file.is_file() and not file.is_symlink())
    files = (HubFile(file, f"{TASKS}/{file.relative_to(directory).as_posix()}") for file in paths)
    return HubUpload(repository, (*files, HubFile(directory / REGISTRY, REGISTRY), card), is_private)


def push(upload: HubUpload) -> str:
    """Upload a plan in one commit, and create the repository if needed; return the commit's URL.

    Raises ``MissingExtra``, ``UsageError`` for a private upload to a public repository, and ``EvoPolicyGymError`` if
    the hub refuses or can't be reached.
    """
    with needs("Pushing to a hub"):
        from httpx2 import HTTPError
        from huggingface_hub import CommitOperationAdd, HfApi

    api = HfApi(library_name="evopolicygym", library_version=__version__)
    try:
        api.create_repo(upload.repository, private=upload.is_private, exist_ok=True, repo_type=KIND)
        if upload.is_private and not api.repo_info(upload.repository, repo_type=KIND).private:
            raise UsageError(
                f"{upload.repository} is public on the hub; nothing was uploaded. Pass --public to upload there, or "
                f"another name for a private repository."
            )
        commit = api.create_commit(
            upload.repository,
            [CommitOperationAdd(file.path_in_repo, str(file.path)) for file in upload.files],
            commit_message=f"Export of evopolicygym {__version__}",
            repo_type=KIND,
        )
    except (HTTPError, OSError, ValueError) as error:
        raise EvoPolicyGymError(f"The upload to {upload.repository} failed: {error}") from error
    return str(commit.commit_url)


def total_bytes(files: Iterable[HubFile]) -> int:
    """Return the size of all files."""
    return sum(file.n_bytes for file in files)


def _write_if_missing(path: Path, text: str) -> HubFile:
    if not path.exists():
        path.write_text(text, encoding="utf-8")
    return HubFile(path, path.name)


def _endpoint() -> str:
    with needs("Naming a hub"):
        from huggingface_hub.constants import ENDPOINT
    return str(ENDPOINT)
