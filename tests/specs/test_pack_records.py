"""Records of packs' checks: how they are written and read."""

import json

import pytest

from evopolicygym.core.errors import UsageError
from evopolicygym.core.pack import CheckedTask, PackRecord
from evopolicygym.specs.pack_catalog import decode_record, encode_record

TASK = CheckedTask("A-v0", "A-v0", ok=True, repeats=True, steps_per_second=7, random_mean=-0.5, random_episodes=8)
BAD = CheckedTask("B-v0", "B/v0", ok=False, wrong="it leaves files behind: a.xml", left=("a.xml",))
RECORD = PackRecord("mine", "0.2.0", "2026-11-23", "x86_64", ("a==1",), {"python": "3.11.2", "a": "1"}, (TASK, BAD))


def test_a_record_comes_back() -> None:
    """What is written is read as it was, a line for each task."""
    text = encode_record(RECORD)
    (line,) = [line for line in text.splitlines() if '"B-v0"' in line]

    assert decode_record(text.encode(), "here") == RECORD
    assert json.loads(line) == {
        "name": "B-v0", "id": "B/v0", "ok": False, "wrong": BAD.wrong, "random_episodes": 0, "left": ["a.xml"]
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "{}", encode_record(RECORD).replace('"ok": true', '"okay": true')])
def test_what_is_no_record_is_refused(text: str) -> None:
    """A file that is something else is named, with what is wrong."""
    with pytest.raises(UsageError, match=r"mine\.json"):
        decode_record(text.encode(), "mine.json")
