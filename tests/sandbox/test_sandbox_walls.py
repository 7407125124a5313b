"""Walls that a machine lacks: a level whose promise one of them is isn't used, unless the user waives it by name."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from enclosed import needs_bubblewrap
from evopolicygym.analysis.ranking.score_table import score_table
from evopolicygym.analysis.results import load_results
from evopolicygym.core.errors import SandboxError, UnknownName
from evopolicygym.core.rollout import Isolation
from evopolicygym.runs.config import decode_run_config
from evopolicygym.sandbox.base import SandboxFeature
from evopolicygym.sandbox.levels import choose
from players import GOOD
from records_of_runs import changed, real_document, write

pytestmark = pytest.mark.made_up

EDIT = "import pathlib, subprocess, sys; pathlib.Path('system/policy.py').write_text(sys.argv[1]); "
SUBMIT = "subprocess.run(['./judge', 'submit', '0-1'], check=True)"
SMALL = ("--budget", "2", "--validation", "1", "--held-out", "1", "--workers", "1", "--json")


def without(*walls: SandboxFeature) -> Callable[[SandboxFeature], str]:
    """Return what a machine without these walls says of each."""
    return lambda wall: "it isn't here" if wall in walls else ""


@needs_bubblewrap
@pytest.mark.parametrize(
    ("level", "wall"),
    [("bubblewrap", SandboxFeature.SECCOMP), ("process", SandboxFeature.SECCOMP), ("process", SandboxFeature.LANDLOCK)],
)
def test_a_missing_wall_stops_the_level(level: str, wall: SandboxFeature) -> None:
    """A level that can't keep its whole promise is refused, with what is missing and how to accept less."""
    with pytest.raises(SandboxError, match=rf"{wall}.*it isn't here.*--allow-missing {wall}"):
        choose(level, without(wall))


@needs_bubblewrap
@pytest.mark.parametrize(
    ("asked", "wall"),
    [
        ("bubblewrap without seccomp", SandboxFeature.SECCOMP),
        ("process without landlock", SandboxFeature.LANDLOCK),
        ("process without landlock and seccomp", SandboxFeature.LANDLOCK),
    ],
)
def test_a_waived_wall_changes_the_name(asked: str, wall: SandboxFeature) -> None:
    """A level without a wall that was waived goes by another name, in which only what is missing stands."""
    chosen = choose(asked, without(wall))

    assert chosen.isolation == f"{Isolation.parse(asked).backend} without {wall}"
    assert "it isn't here" in chosen.findings[f"without {wall}"]


@needs_bubblewrap
def test_a_wall_that_is_there_is_not_waived() -> None:
    """Where nothing is missing, a waiver changes nothing."""
    assert choose("bubblewrap without seccomp", without()).isolation == "bubblewrap"


@needs_bubblewrap
def test_auto_takes_no_level_that_lacks_a_wall() -> None:
    """Of levels that lack what they promise none is taken by itself; with a waiver the strongest is."""
    with pytest.raises(SandboxError, match=r"bubblewrap.*seccomp"):
        choose("auto", without(SandboxFeature.SECCOMP))
    assert choose("auto without seccomp", without(SandboxFeature.SECCOMP)).isolation == "bubblewrap without seccomp"


def test_walls_are_waived_by_name() -> None:
    """What is waived in a configuration becomes part of the level that is asked for; other names are refused."""
    asked = decode_run_config({"task": "cartpole", "allow_missing": ["seccomp", "landlock"]}, "here")

    assert asked.isolation == "auto without landlock and seccomp"
    with pytest.raises(UnknownName, match="landlock, program-sandbox, seccomp"):
        decode_run_config({"task": "cartpole", "allow_missing": ["namespaces"]}, "here")


def played(place: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Play a whole run on a machine on which libseccomp can't be loaded, as its file is empty."""
    (place / "libraries").mkdir()
    (place / "libraries" / "libseccomp.so.2").touch()
    words = ["run", "cartpole", *SMALL, *options, "--", "python3", "-c", EDIT + SUBMIT, GOOD]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "LD_LIBRARY_PATH": str(place / "libraries"),
        "XDG_STATE_HOME": str(place / "state"),
    }
    return subprocess.run(
        [sys.executable, "-P", "-m", "evopolicygym", *words],
        cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@needs_bubblewrap
def test_a_run_without_libseccomp_is_refused(tmp_path: Path) -> None:
    """Without libseccomp no run begins by itself; what to install and how to go on without it is said."""
    done = played(tmp_path, "--isolation", "bubblewrap")

    assert done.returncode == 4
    assert "libseccomp" in done.stderr
    assert list(tmp_path.glob("runs/*/*/*/*")) == []


@needs_bubblewrap
def test_a_run_without_libseccomp_is_marked(tmp_path: Path) -> None:
    """A run that waived the filter of system calls says so wherever its level is shown; its agent is kept in."""
    done = played(tmp_path, "--allow-missing", "seccomp")

    assert done.returncode == 0, done.stderr
    document = json.loads(next(tmp_path.glob("runs/*/*/*/*/run.json")).read_text(encoding="utf-8"))
    assert document["isolation"]["level"] == "bubblewrap without seccomp"
    assert "hidden" in document["isolation"]["agent"]


def test_tables_say_what_was_waived(tmp_path: Path) -> None:
    """A table in which runs stand whose level lacked a wall says so, beside the name that each run has."""
    document = changed(real_document(tmp_path / "real"), "acrobot", "one", [-90.0, -80.0])
    document["isolation"]["level"] = "bubblewrap without seccomp"
    write(tmp_path / "runs", document)
    table = score_table(load_results([tmp_path / "runs"]).runs, [])

    assert any("bubblewrap without seccomp" in note for note in table.notes)
