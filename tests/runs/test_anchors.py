"""Anchors are measured as policies are played, and ending early is found where it pays."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark_module import load
from evopolicygym.core.errors import UsageError
from evopolicygym.core.spaces import Box, Discrete
from evopolicygym.core.task import Anchor, EnvironmentSpec
from evopolicygym.runs.anchors import AnchorKind, candidate_actions, measure_anchors, measure_repeated
from evopolicygym.specs import catalog, pack_catalog
from evopolicygym.specs.catalog import pack_lines, spec_lines
from places import SUPPORT
from shell import Shell
from simulators import spec

CARTPOLE = catalog.load("cartpole")


@pytest.fixture
def _found_simulators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT), prepend=os.pathsep)


def costly(**changes: object) -> EnvironmentSpec:
    """Return an environment in which every step costs, and pushing to one side ends an episode."""
    return replace(spec("Edge", 50), **changes)  # type: ignore[arg-type]


def test_random_and_idle() -> None:
    """What is measured is what the spec that ships holds, of its first cases."""
    found = measure_anchors(CARTPOLE, 8, {AnchorKind.RANDOM, AnchorKind.IDLE}, 1)
    random, idle = (found.by_kind[kind] for kind in (AnchorKind.RANDOM, AnchorKind.IDLE))

    assert (random.anchor.episodes, idle.anchor.episodes) == (8, 8)
    assert random.anchor.mean == random.mean_steps
    assert idle.anchor.mean < random.anchor.mean
    assert CARTPOLE.idle_anchor is not None
    assert idle.anchor.mean == pytest.approx(CARTPOLE.idle_anchor.mean, abs=1)
    assert random.seconds > 0


def test_it_repeats() -> None:
    """The same cases give the same anchor, whatever else was played, and however many play at once."""
    both = measure_anchors(CARTPOLE, 4, {AnchorKind.RANDOM, AnchorKind.IDLE}, 2)

    assert measure_anchors(CARTPOLE, 4, {AnchorKind.RANDOM}, 1).by_kind[AnchorKind.RANDOM].anchor == (
        both.by_kind[AnchorKind.RANDOM].anchor
    )
    assert measure_repeated(CARTPOLE, CARTPOLE.idle_action, 4) == both.by_kind[AnchorKind.IDLE].anchor


@pytest.mark.usefixtures("_found_simulators")
def test_ending_early_is_found() -> None:
    """Where every step costs, the action that ends episodes early is found, said, and measured."""
    found = measure_anchors(costly(), 4, {AnchorKind.DEGENERATE}, workers=1)

    assert found.degenerate_policy == "repeats the action [1.0]"
    assert found.by_kind[AnchorKind.DEGENERATE].mean_steps == 2
    assert found.by_kind[AnchorKind.DEGENERATE].anchor == Anchor(-2.0, 0.0, 4)


@pytest.mark.usefixtures("_found_simulators")
@pytest.mark.parametrize("arguments", [{"pays": 1.0}, {"fine": 100.0}])
def test_ending_early_where_it_gains_nothing(arguments: dict[str, float]) -> None:
    """Where steps pay, or ending costs more than they do, there is no such anchor."""
    found = measure_anchors(costly(arguments=arguments), 4, workers=1)

    assert list(found.by_kind) == [AnchorKind.RANDOM, AnchorKind.IDLE]
    assert found.degenerate_policy == ""


def test_the_reference() -> None:
    """The policy that a person wrote is played on the same cases; where there is none, asking for it says so."""
    found = measure_anchors(catalog.load("key_corridor"), 2, {AnchorKind.REFERENCE}, 1)

    assert list(found.by_kind) == [AnchorKind.REFERENCE]
    assert found.by_kind[AnchorKind.REFERENCE].anchor.mean > 0.8
    with pytest.raises(UsageError, match="cartpole"):
        measure_anchors(CARTPOLE, 2, {AnchorKind.REFERENCE}, 1)


def test_actions_that_are_tried() -> None:
    """Every other value of a Discrete is tried, and of a Box each bound of each element, and all at one bound."""
    box = Box((2,), "float32", -1.0, (1.0, float("inf")))

    assert list(candidate_actions(Discrete(3, 1), 1)) == [2, 3]
    assert list(candidate_actions(box, [0.0, 0.0])) == [[-1.0, -1.0], [-1.0, 0.0], [1.0, 0.0], [0.0, -1.0]]


@pytest.mark.parametrize("cases", [1, 257])
def test_cases_that_there_are_not(cases: int) -> None:
    """A number of cases that gives no standard error, or that there are not, is refused with what would work."""
    with pytest.raises(UsageError, match=str(cases)):
        measure_anchors(CARTPOLE, cases, {AnchorKind.IDLE}, 1)


def test_an_idle_action_that_is_none() -> None:
    """An idle action that the simulator refuses is said, and is no anchor."""
    with pytest.raises(UsageError, match="cartpole"):
        measure_anchors(replace(CARTPOLE, idle_action=7), 2, {AnchorKind.IDLE}, 1)


def test_the_lines_of_a_spec_and_of_a_pack() -> None:
    """What is printed is what a spec or a pack's file may hold."""
    found = {"random": Anchor(-285.1349, 4.666, 256), "idle": Anchor(0.0, 0.0, 64, 0.5)}
    pack = 'title = "t"\nfamily = "f"\nlicence = "l"\n[[tasks]]\nids = ["A/B-v0"]\nkind = "tuning"\n'
    (task,) = pack_catalog.decode(pack + pack_lines("A-B-v0", 9, found, "runs into a wall"), "mine").tasks

    assert spec_lines(found).splitlines()[0] == (
        "random_anchor = { mean = -285.135, standard_error = 4.67, episodes = 256 }"
    )
    assert task.anchors is not None
    assert (task.anchors.random, task.anchors.idle) == (Anchor(-285.135, 4.67, 256), Anchor(0.0, 0.0, 64, 0.5))
    assert (task.anchors.max_steps, task.anchors.degenerate_policy) == (9, "runs into a wall")


def test_the_verb(shell: Shell) -> None:
    """The verb prints a table and the lines to be copied, or JSON; several environments may be named."""
    text = shell.printed("anchors", "cartpole", "--cases", 2, "--kind", "idle", "--workers", 1)
    found = shell.json("anchors", "cartpole", "CliffWalking-v1", "--cases", 2, "--kind", "idle", "--workers", 1)

    assert "\nidle_anchor = { mean = " in text
    assert [one["environment"] for one in found] == ["cartpole", "CliffWalking-v1"]
    assert found[0]["anchors"]["idle"]["anchor"]["episodes"] == 2
    assert json.dumps(found[1]["max_steps"]) == "200"


def test_the_benchmark_writes_where_numbers_stand() -> None:
    """The files that the benchmark of anchors writes are there, one of them for each spec."""
    anchors = load("anchors")

    assert [path for path in (anchors.SPECS, anchors.TABLE, anchors.SHIPPED) if not path.exists()] == []
    assert [name for name in catalog.names() if not (anchors.SPECS / f"{name}.toml").is_file()] == []


def test_an_anchor_is_written_before_the_tables_of_a_spec(tmp_path: Path) -> None:
    """An anchor that is new stands before a spec's tables, one that was there where it stood."""
    anchors = load("anchors")
    there = Path(anchors.SPECS, "cartpole.toml").read_text(encoding="utf-8")
    written = anchors.with_anchors(there, {"idle": Anchor(1.5, 0.5, 4), "degenerate": Anchor(2.5, 0.5, 4)})
    (tmp_path / "cartpole.toml").write_text(written, encoding="utf-8")
    found = catalog.load(tmp_path / "cartpole.toml")

    assert (found.idle_anchor, found.degenerate_anchor) == (Anchor(1.5, 0.5, 4), Anchor(2.5, 0.5, 4))
    assert found.random_anchor == CARTPOLE.random_anchor
    assert found.objective == CARTPOLE.objective
