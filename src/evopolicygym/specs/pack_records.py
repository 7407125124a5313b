"""Records of packs' checks: what ships with us, in ``specs/pack_checks/<name>.json``, and how one is written.

A file has a line for each task, so that two checks can be compared line by line.
"""

import json
from dataclasses import asdict
from functools import cache
from importlib.resources import files

from evopolicygym.core.decoding import Undecodable, decoder
from evopolicygym.core.errors import UsageError
from evopolicygym.core.pack import PackRecord

TASKS = "tasks"


@cache
def shipped(name: str) -> PackRecord | None:
    """Return the check of a pack that ships with us; None where there is none."""
    file = files("evopolicygym.specs").joinpath("pack_checks", f"{name}.json")
    return decode(file.read_bytes(), file.name) if file.is_file() else None


def decode(text: bytes, where: str) -> PackRecord:
    """Return what a file holds; raise ``UsageError`` with what is wrong."""
    try:
        return decoder(PackRecord, allow_inf_nan=False).json(text)
    except Undecodable as error:
        raise UsageError(f"{where} is no record of a pack's check: {error}.") from error


def encode(record: PackRecord) -> str:
    """Return the text of a record's file; what a task says nothing of is left out."""
    head = {name: value for name, value in asdict(record).items() if name != TASKS}
    lines = [json.dumps({name: value for name, value in asdict(task).items() if value not in (None, "", ())})
             for task in record.tasks]  # fmt: skip
    begin = json.dumps(head, indent=1, sort_keys=True).removesuffix("\n}")
    return f'{begin},\n "{TASKS}": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"
