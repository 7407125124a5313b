"""``post_hoc.json``: held-out returns of checkpoints that were played after a run was scored, outside of its score.

::

    {"schema_version": "1", "checkpoints": {"<name>": {"returns": [1.0, 2.0]}}}

Returns stand in the split's order, one for each of the run's held-out cases. Who plays them is not told here.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ValidationError

from evopolicygym.core import regular_file
from evopolicygym.core.errors import RecordError
from evopolicygym.records import durable
from evopolicygym.records.documents import SCHEMA_VERSION
from evopolicygym.records.jsontext import dumps
from evopolicygym.records.paths import RunPaths

MOST_BYTES = 64 << 20
"""Of a ``post_hoc.json``: some 20 a return, so a thousand checkpoints on all held-out cases take less."""


class _Checkpoint(BaseModel, extra="forbid"):
    returns: list[float]


class _Document(BaseModel, extra="forbid"):
    schema_version: Literal["1"]
    checkpoints: dict[str, _Checkpoint]


def write_post_hoc(paths: RunPaths, returns: Mapping[str, Sequence[float]]) -> None:
    """Write the returns of each checkpoint, by its name; whatever was written before is replaced."""
    checkpoints = {name: {"returns": list(values)} for name, values in returns.items()}
    document = {"schema_version": SCHEMA_VERSION, "checkpoints": checkpoints}
    durable.write_text(paths.post_hoc, dumps(document, indent=2) + "\n")


def read_post_hoc(paths: RunPaths) -> dict[str, tuple[float, ...]] | None:
    """Return the returns of each checkpoint, by its name; None where nothing was played post hoc.

    Raises ``RecordError`` where the file is damaged or of another version.
    """
    try:
        text = regular_file.read(paths.post_hoc, MOST_BYTES)
    except FileNotFoundError:
        return None
    try:
        document = _Document.model_validate(json.loads(text))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise RecordError(f"{paths.post_hoc} can't be read: {where}: {problem['msg']}.") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{paths.post_hoc} can't be read as JSON: {error}.") from error
    return {name: tuple(one.returns) for name, one in document.checkpoints.items()}
