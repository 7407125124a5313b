"""Any registered id plays: its own spaces say what it takes and returns."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import evopolicygym
from evopolicygym.analysis.run_tables import load_runs
from evopolicygym.checks.environment import examine
from evopolicygym.core.errors import UsageError
from evopolicygym.core.pack import PackText
from evopolicygym.environments.derived import bare_spec, complete_spec
from evopolicygym.environments.description import describe_here
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.pickled import reference_to
from evopolicygym.environments.rendering import RenderedEnvironment
from evopolicygym.records.reader import read_run
from evopolicygym.runs.environment import unregistered_id
from evopolicygym.specs import catalog
from places import SUPPORT
from registered_ids import NAMES, Scalars
from shell import Shell


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT), prepend=os.pathsep)


@pytest.mark.parametrize("name", [*NAMES, "TimeAware"])
def test_what_a_space_contains_is_played(name: str) -> None:
    """What Gymnasium's spaces contain is taken, and the simulator gets what its space would draw."""
    bare = bare_spec(f"registered_ids:{name}-v0")
    spec = complete_spec(bare, describe_here(bare), PackText())

    assert [found for found in examine(spec, texts=False) if not found.ok] == []


def test_an_id_is_checked_by_the_verb(shell: Shell) -> None:
    """An id needs no file."""
    left = shell("check", "environment", "registered_ids:TimeAware-v0", "--json")

    assert left.code == 0
    assert json.loads(left.out)["ok"] is True


PLAYED = ("--agent", "random", "--budget", "2", "--validation", "2", "--held-out", "2", "--quiet")


@pytest.mark.parametrize(
    ("name", "repeats", "cases_differ"),
    [("Everything", True, True), ("Unseeded", False, True), ("OneCase", True, False)],
)
def test_a_record_says_whether_its_environment_repeats(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, *, repeats: bool, cases_differ: bool
) -> None:
    """The record, its row, and a note under each table say it; what repeats replays."""
    monkeypatch.chdir(tmp_path)
    shell.printed("run", f"registered_ids:{name}-v0", *PLAYED)
    (root,) = (path.parent for path in tmp_path.rglob("journal.jsonl"))
    document = json.loads((root / "run.json").read_text(encoding="utf-8"))
    (row,) = load_runs(root).runs
    table, shown = shell.printed("leaderboard"), shell.printed("show", root)

    assert (document["repeats"], document["cases_differ"]) == (repeats, cases_differ)
    assert (row.repeats, row.cases_differ) == (repeats, cases_differ)
    assert (f"{name}-v0" in table.partition("Does not repeat")[2]) is not repeats
    assert ("for each seed" in table, "for each seed" in shown) == (not cases_differ, not cases_differ)
    assert shell("verify", "--replay", root).code == (0 if repeats else 1)


def test_anchors_that_are_measured_later_reach_earlier_runs(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run without anchors in its record has those that are measured after it, found by its fingerprint."""
    monkeypatch.chdir(tmp_path)
    shell.printed("run", "registered_ids:TimeAware-v0", *PLAYED)
    before = [run.random_anchor for run in load_runs(tmp_path / "runs").runs]
    shell.printed("anchors", "registered_ids:TimeAware-v0", "--cases", 2, "--kind", "random", "--workers", 1)
    after = [run.random_anchor for run in load_runs(tmp_path / "runs").runs]

    assert before == [None]
    assert [anchor.episodes for anchor in after if anchor] == [2]


@pytest.mark.parametrize("shape", [(4, 6, 3), (4, 6, 4), (4, 6), (4, 6, 1)])
def test_a_picture_without_colours_or_with_transparency_is_one(shape: tuple[int, ...]) -> None:
    """A film has pictures in red, green and blue, whatever the renderer makes of them."""
    environment = RenderedEnvironment(bare_spec("registered_ids:Pictured-v0", arguments={"shape": shape}))
    environment.reset(0)
    picture = environment.picture()

    assert picture.shape == (4, 6, 3)
    assert set(picture.ravel().tolist()) == {100}


@pytest.mark.parametrize("name", ["Pictured", "HumanOnly"])
def test_a_renderer_that_draws_in_a_window_only_says_so(name: str) -> None:
    """What can't be filmed names the render modes that there are."""
    with pytest.raises(UsageError, match="got human"):
        RenderedEnvironment(bare_spec(f"registered_ids:{name}-v0"))


def test_a_class_is_an_environment(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of a notebook or a script is played, and its record replays without it."""
    monkeypatch.chdir(tmp_path)

    class Near(gymnasium.Env[Any, Any]):
        """Stay near zero."""

        observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(
            self,
            *,
            seed: int | None = None,
            options: dict[str, Any] | None = None,  # noqa: ARG002 - Gymnasium passes it
        ) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)
            return self.np_random.uniform(-1, 1, 1).astype(np.float32), {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            return np.zeros(1, np.float32), float(action), True, False, {}

    run = evopolicygym.run(Near, "random", budget=2, validation=2, held_out=2, progress=False)

    assert run.path.parent.name == "Near"
    assert "Stay near zero." in (run.path / "run.json").read_text(encoding="utf-8")
    assert shell("verify", "--replay", run.path).code == 0


def test_what_can_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of a module is found by its name, which a command line takes too."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    spec = bare_spec("registered_ids:Scalars")

    assert reference_to(Scalars) == (spec.id, {}, [])
    assert describe_here(spec).action_schema == {"type": "Discrete", "n": 2, "start": 0}
    with pytest.raises(UsageError, match="needs no arguments"):
        reference_to(Environment)


SOURCE = """
import gymnasium
import registered_ids

class Walk(registered_ids.Scalars):
    far = 3.0

    def reset(self, **given):
        assert Walk.far in {3.0, 4.0, "near", "far"}
        return super().reset(**given)

def make():
    return gymnasium.wrappers.TimeLimit(Walk(), 3)
"""

PRINTED = "from evopolicygym.environments.pickled import reference_to; print(reference_to({}))"


@pytest.mark.parametrize("name", ["Walk", "make"])
def test_code_is_the_same_in_each_process_and_directory(name: str, tmp_path: Path) -> None:
    """Two runs of a script, or of a notebook's cell, are of one environment; a changed value makes another."""

    def code(directory: str, source: str = SOURCE) -> str:
        names: dict[str, Any] = {"__name__": "__main__", "__file__": f"{tmp_path}/{directory}/walk.py"}
        exec(compile(source, names["__file__"], "exec"), names)  # noqa: S102 - as Python runs a script
        _, arguments, modules = reference_to(names[name])
        assert modules == ["registered_ids"]
        return str(arguments["code"])

    seen = [
        subprocess.run(
            [sys.executable, "-c", f"{SOURCE}\n{PRINTED.format(name)}"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert seen[0] == seen[1] != b""
    assert code("first") == code("second")
    assert str(tmp_path).encode() not in base64.b64decode(code("first"))
    assert code("first") != code("first", SOURCE.replace("3.0", "4.0"))


def test_modules_behind_a_function_are_of_its_environment(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module beside a script is found by other processes, also by a replay, and the record has its hash."""
    monkeypatch.chdir(SUPPORT)
    monkeypatch.setenv("PYTHONPATH", "")
    given = {"budget": 2, "validation": 2, "held_out": 2, "runs": str(tmp_path / "runs"), "progress": False}
    run = evopolicygym.run(lambda: Scalars(), "random", **given)  # type: ignore[arg-type] # noqa: PLW0108
    opened = read_run(run.path).state.opened
    monkeypatch.setenv("PYTHONPATH", "")

    assert shell("verify", "--replay", run.path).code == 0
    assert opened.task.environment.imports == ("registered_ids",)
    assert "registered_ids" in opened.simulator_code


def test_what_cannot_be_played_elsewhere_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance, too much data, and an id that only this process knows are rejected with a hint."""
    monkeypatch.setitem(
        gymnasium.registry, "Here-v0", gymnasium.envs.registration.EnvSpec("Here-v0", entry_point=Scalars)
    )
    much = np.zeros(1 << 18)
    id_of, arguments, _ = reference_to(lambda: gymnasium.make("There-v0"))

    with pytest.raises(UsageError, match="got a Scalars"):
        evopolicygym.run(Scalars())  # type: ignore[arg-type] # what a newcomer writes
    with pytest.raises(UsageError, match="1,048,576"):
        reference_to(lambda: Scalars(much))  # type: ignore[call-arg] # it isn't called
    with pytest.raises(UsageError, match="module:Id"):
        Environment(bare_spec(id_of, arguments=arguments))
    assert "in this process only" in str(unregistered_id("Here-v0", ()))
    assert "in this process only" not in str(unregistered_id("There-v0", ()))


def test_a_script_without_docstrings_has_no_words_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of a script has no docstring but its own: the main module of a worker is ours."""
    monkeypatch.setattr(sys.modules["__main__"], "__doc__", "A worker.")
    silent = type("Silent", (Scalars,), {"__module__": "__main__", "__doc__": None})
    id_of, arguments, _ = reference_to(silent)

    assert Environment(bare_spec(id_of, arguments=arguments)).docstring == ""


@pytest.mark.parametrize(("also", "handed"), [("beside", True), ("elsewhere", False)])
def test_a_module_that_this_process_finds_is_found_by_others(
    also: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, handed: bool
) -> None:
    """A script's directory is on its own path only; it is handed on, unless its module comes from elsewhere."""
    for name in ("beside", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "walks_here.py").touch()
    monkeypatch.syspath_prepend(tmp_path / also)
    monkeypatch.setenv("PYTHONPATH", "")
    catalog.import_from(tmp_path / "beside", bare_spec("walks_here:Walk"))

    assert os.environ["PYTHONPATH"] == (str(tmp_path / "beside") if handed else "")
