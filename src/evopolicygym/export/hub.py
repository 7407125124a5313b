"""Uploading exports to a hub of data sets, by Hugging Face's own client: what would be uploaded, and the uploading.

Nothing is uploaded but what a plan names, and nothing before ``push`` is called. Which hub it is, and who one is there,
are the client's settings (``HF_ENDPOINT``, ``HF_TOKEN``, ``hf auth login``).
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.core.errors import EvoPolicyGymError, UsageError
from evopolicygym.export.exporters import WrittenFile, needs
from evopolicygym.version import __version__

REPOSITORY = re.compile(r"hub:(\w[\w.-]{0,95}/\w[\w.-]{0,95})", re.ASCII)
KIND = "dataset"
CARD = "README.md"
REGISTRY = "registry.json"
TASK_FILE = "task.toml"
"""By which a directory is known as a Harbor task."""
TASKS = "tasks"
"""Where tasks lie in their repository."""
TABLES_CARD = """\
---
pretty_name: EvoPolicyGym runs
tags:
- evopolicygym
- reinforcement-learning
configs:
{configs}---

# EvoPolicyGym runs

{runs} runs in which an agent improved an executable policy through feedback, as tables. The column `run` joins them;
each column's meaning and unit is in the schema of its file (`pyarrow.parquet.read_schema`).

| table | rows |
|---|---|
{rows}
```python
from datasets import load_dataset

{first} = load_dataset("{repository}", "{first}", split="train")
```

Written by evopolicygym {version}.
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
    """One file that is to be uploaded."""

    path: Path
    place: str
    """Its path in the repository."""

    @property
    def n_bytes(self) -> int:
        """Its size now."""
        return self.path.stat().st_size


@dataclass(frozen=True, slots=True)
class HubUpload:
    """What is to be uploaded, and whereto."""

    repository: str
    """``OWNER/NAME``, of a data set."""
    files: tuple[HubFile, ...]
    is_private: bool = True

    @property
    def visibility(self) -> str:
        """Who can see it, in a word."""
        return "private" if self.is_private else "public"


def repository_of(asked: str) -> str:
    """Return the ``OWNER/NAME`` of ``hub:OWNER/NAME``; raise ``UsageError`` for anything else."""
    if found := REPOSITORY.fullmatch(asked):
        return found[1]
    raise UsageError(f"Invalid target of a push: expected hub:OWNER/NAME, such as hub:me/acrobot-runs, got {asked!r}.")


def tables_upload(
    written: Sequence[WrittenFile], directory: Path, repository: str, runs: int, *, is_private: bool = True
) -> HubUpload:
    """Return the upload of tables that were written into a directory, with a card that has a config for each table.

    The card is ``README.md`` in the directory; one that is there is kept, so that it may be edited.
    """
    names = [one.name for one in written]
    configs = (
        f"- config_name: {one.name}\n  data_files: {one.path.name}\n{'  default: true' * (one.name == names[0])}\n"
        for one in written
    )
    card = TABLES_CARD.format(
        configs="".join(configs).replace("\n\n", "\n"),
        rows="".join(f"| {one.name} | {one.rows:,} |\n" for one in written),
        runs=runs,
        repository=repository,
        first=names[0],
        version=__version__,
    )
    files = (HubFile(one.path, one.path.name) for one in written)
    return HubUpload(repository, (*files, _kept(directory / CARD, card)), is_private)


def tasks_upload(directory: Path, repository: str, url: str = "", *, is_private: bool = True) -> HubUpload:
    """Return the upload of Harbor tasks, the directories below one that hold a ``task.toml``.

    ``registry.json``, which lists them as a data set of Harbor's, and a card are written into the directory. ``url`` is
    where the repository's git answers; by default that on the hub of the client's settings.
    """
    tasks = sorted(file.parent for file in directory.glob(f"*/{TASK_FILE}"))
    if not tasks:
        raise UsageError(f"{directory} has no task; expected directories with a {TASK_FILE} in it.")
    git = url or f"{_endpoint()}/datasets/{repository}"
    listed = [{"name": one.name, "git_url": git, "path": f"{TASKS}/{one.name}"} for one in tasks]
    text = "Improve an executable policy through feedback."
    registry = [{"name": "evopolicygym", "version": __version__, "description": text, "tasks": listed}]
    (directory / REGISTRY).write_text(json.dumps(registry, indent=2) + "\n", encoding="utf-8")
    card = _kept(directory / CARD, TASKS_CARD.format(count=len(tasks), version=__version__))
    found = (file for task in tasks for file in sorted(task.rglob("*")) if file.is_file() and not file.is_symlink())
    files = (HubFile(file, f"{TASKS}/{file.relative_to(directory).as_posix()}") for file in found)
    return HubUpload(repository, (*files, HubFile(directory / REGISTRY, REGISTRY), card), is_private)


def push(upload: HubUpload) -> str:
    """Upload a plan in one commit, into a repository that is made where there is none; return the commit's address.

    Raises ``MissingExtra``, ``UsageError`` where the repository is public and the upload is private, and
    ``EvoPolicyGymError`` where the hub refuses or can't be reached.
    """
    with needs("Pushing to a hub"):
        from httpx2 import HTTPError
        from huggingface_hub import CommitOperationAdd, HfApi

    api = HfApi(library_name="evopolicygym", library_version=__version__)
    try:
        api.create_repo(upload.repository, private=upload.is_private, exist_ok=True, repo_type=KIND)
        if upload.is_private and not api.repo_info(upload.repository, repo_type=KIND).private:
            raise UsageError(
                f"{upload.repository} is public on the hub, so nothing was uploaded. --public uploads there; another "
                f"name makes a private repository."
            )
        commit = api.create_commit(
            upload.repository,
            [CommitOperationAdd(one.place, str(one.path)) for one in upload.files],
            commit_message=f"Export of evopolicygym {__version__}",
            repo_type=KIND,
        )
    except (HTTPError, OSError, ValueError) as error:
        raise EvoPolicyGymError(f"The hub did not take {upload.repository}: {error}") from error
    return str(commit.commit_url)


def total_bytes(files: Iterable[HubFile]) -> int:
    """Return the size of all files."""
    return sum(one.n_bytes for one in files)


def _kept(path: Path, text: str) -> HubFile:
    """Return a file of this text, or the one that is there already."""
    if not path.exists():
        path.write_text(text, encoding="utf-8")
    return HubFile(path, path.name)


def _endpoint() -> str:
    with needs("Naming a hub"):
        from huggingface_hub.constants import ENDPOINT
    return str(ENDPOINT)
