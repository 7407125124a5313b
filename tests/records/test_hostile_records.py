"""Records from elsewhere that mean harm, taken through every verb that reads one: nothing runs, nothing leaks."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hostile_records import (
    KINDS,
    SECRET,
    Outside,
    lay_all,
    lay_broken,
    lay_foreign,
    lay_linked_directories,
    lay_names_that_lead_out,
    lay_own_simulators,
)
from places import SUPPORT

pytestmark = pytest.mark.nightly

MOST_MEMORY = 2 << 30
QUICK = {"foreign", "simulators", "a_link"}
"""Those that every run of the tests takes; each starts some hundred programs."""
PATIENCE_S = 600
"""After which a reader that hangs is given up."""
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LAYERS: dict[str, Callable[[Path, Outside], None]] = {
    "foreign": lay_foreign,
    "linked directories": lay_linked_directories,
    "broken": lay_broken,
    "names": lay_names_that_lead_out,
    "simulators": lay_own_simulators,
    **{kind.__name__: partial(lay_all, kind=kind) for kind in KINDS},  # type: ignore[dict-item]
}


def read_by_every_verb(tmp_path: Path, runs: Path, outside: Outside) -> dict[str, Any]:
    """Have a process of its own go through every verb, and return what it tells."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "canary_module.py").write_text(f"open({str(outside.touched)!r}, 'w').close()\n", encoding="utf-8")
    (tmp_path / "out").mkdir()
    here = SUPPORT
    reader = [sys.executable, str(here / "hostile_reader.py"), str(runs), str(tmp_path / "out")]
    told = subprocess.run(
        reader,
        env={**os.environ, "PYTHONPATH": f"{here}:{modules}", "COLUMNS": "200", "EVOPOLICYGYM_SECRET": SECRET},
        cwd=tmp_path,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert told.returncode == 0, told.stderr.decode()[-3000:]
    found: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.nightly]) for name in LAYERS]
)
def test_a_hostile_record_harms_no_reader(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a record holds, no verb runs it, leaves it, hangs, takes much memory or prints what a terminal obeys."""
    outside, runs = Outside(tmp_path / "outside"), tmp_path / "runs"
    outside.lay()
    runs.mkdir()
    monkeypatch.chdir(runs)  # names of sockets are short
    LAYERS[name](runs, outside=outside)  # type: ignore[call-arg]
    before = outside.found()
    found = read_by_every_verb(tmp_path, runs, outside)
    told: dict[str, list[Any]] = found["told"]
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]

    assert outside.found() == before
    assert [asked for asked, (_, text) in told.items() if SECRET in text] == []
    assert [path for path in written if SECRET.encode() in path.read_bytes()] == []
    assert {asked: text[-600:] for asked, (code, text) in told.items() if code < 0 or "Traceback" in text} == {}
    assert {asked: code for asked, (code, _) in told.items() if code not in {0, 1, 2, 3}} == {}
    assert {asked: RAW.findall(text) for asked, (_, text) in told.items() if RAW.search(text)} == {}
    assert found["memory"] < MOST_MEMORY
