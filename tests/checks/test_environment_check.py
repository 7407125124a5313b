"""The check of an environment: it passes what is sound, and each part of it finds what it is there to find."""

import os
import re
import sys
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.checks.environment import check, examine
from evopolicygym.core.check_result import CheckResult
from evopolicygym.core.errors import UsageError
from evopolicygym.core.task import EnvironmentSpec, Success, SuccessRule, TaskKind
from evopolicygym.environments.environment import Environment
from evopolicygym.environments.trace import repetitions, trace
from evopolicygym.specs import catalog
from places import ROOT

QUICK = {"cartpole", "bipedal_walker", "ant", "fetch_push", "four_rooms"}
"""One of each kind of simulator."""

ODD = '''
"""A simulator with one fault, of its argument's name; none by default."""
import os
import gymnasium
import numpy as np
from gymnasium import spaces

EPISODES = []


class Odd(gymnasium.Env):
    observation_space = spaces.Box(-9.0, 9.0, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, fault=""):
        self.fault = fault

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        EPISODES.append(seed)
        return self.observe(), {}

    def observe(self):
        noise = {
            "unseeded": lambda: os.urandom(1)[0] / 32,
            "remembers": lambda: len(set(EPISODES)),
            "hashes": lambda: hash("a") % 1_000_003 / 200_000,
        }.get(self.fault, lambda: 0)()
        dtype = np.float64 if self.fault == "dtype" else np.float32
        return np.array([self.np_random.random(), noise], dtype)

    def step(self, action):
        self.steps += 1
        if self.fault == "raises":
            raise RuntimeError("out of fuel")
        reward = np.nan if self.fault == "nan" else float(action[0])
        terminated = self.fault == "terminates" and self.steps == 3
        return self.observe(), reward, terminated, self.fault == "truncates" and self.steps == 3, {"part": reward}


gymnasium.registry.pop("Odd-v0", None)
gymnasium.register("Odd-v0", Odd)
'''


def odd(fault: str = "", **changes: Any) -> EnvironmentSpec:
    sound = EnvironmentSpec(
        *("odd", "Odd-v0", "quick", TaskKind.TUNING, 20, "objective", "reward", "termination"),
        observation=("one", "two"),
        action=("push",),
        idle_action=[0.0],
        imports=("odd_simulator",),
        reward_components=("part",),
        arguments={"fault": fault},
    )
    return replace(sound, **changes)


@pytest.fixture(autouse=True)
def _simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd_simulator.py").write_text(ODD, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delitem(sys.modules, "odd_simulator", raising=False)


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["time.sleep(3600)", "any(iter(int, 1))"])
def test_a_step_that_never_returns_ends_the_check(tmp_path: Path, how: str) -> None:
    """The check gives up, says for how long it waited and where the simulator stood, and leaves no process behind."""
    text = ODD.replace("self.steps += 1", f"import time; {how}").replace("Odd-v0", "Hanging-v0")
    (tmp_path / "odd_simulator.py").write_text(text, encoding="utf-8")
    found = list(check(odd(id="Hanging-v0"), patience_s=5.0))

    assert [(finding.name, finding.ok) for finding in found] == [("loads", True), ("answers", False)]
    assert "5 s" in found[-1].detail
    assert "odd_simulator.py" in found[-1].detail


def test_a_check_in_time_finds_the_same() -> None:
    """A process of its own changes nothing of what is found."""
    found = {one.name: one.ok for one in check(odd())}

    assert found == {one.name: one.ok for one in examine(odd())}
    assert all(found.values())


def test_a_module_of_ones_own_that_is_not_found_is_told_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever makes the environment, a run too, says that the directory of a file has to be on Python's path."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=r"walks.*PYTHONPATH="):
        Environment(odd(imports=("walks",)))


def look_at(part: str, spec: EnvironmentSpec) -> CheckResult:
    """Return what one part of the check finds; what comes after it is not looked at."""
    return next(finding for finding in examine(spec) if finding.name == part)


def bad(findings: Iterable[CheckResult]) -> dict[str, str]:
    return {finding.name: finding.detail for finding in findings if not finding.ok}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * (name not in QUICK)) for name in catalog.names()]
)
def test_every_environment_of_ours_passes(name: str) -> None:
    """What we ask of an outsider's spec, ours keep."""
    assert bad(examine(name)) == {}


def test_a_sound_environment_passes_every_part() -> None:
    """All that the check looks at is named, and nothing is found wrong with a sound simulator."""
    names = [finding.name for finding in examine(odd()) if finding.ok]

    assert names == [
        *("loads", "plays", "observations", "observation texts", "action texts", "reward components", "success"),
        *("idle action", "gymnasium", "recording", "truncation", "cases differ"),
        *("repeats", "repeats after another episode", "repeats in other processes", "coverage"),
    ]


@pytest.mark.parametrize(
    ("spec", "name", "words"),
    [
        (odd("dtype"), "observations", "float64"),
        (odd(observation=("one",)), "observation texts", "1 .*'observation'.* 2"),
        (odd(action=("one", "two")), "action texts", "2 .*'action'.* 1"),
        (odd(reward_components=("part", "whole")), "reward components", "whole.*part"),
        (odd("terminates", success=Success(SuccessRule.INFO, "won")), "success", "'won'.* 60 "),
        (odd(idle_action=[0.0, 0.0]), "idle action", r"\(2,\)"),
        (odd("truncates"), "truncation", r"\b3\b.*\b20\b"),
        (odd("nan"), "plays", "finite"),
        (odd("remembers"), "repeats after another episode", ""),
        (odd("hashes"), "repeats in other processes", ""),
    ],
)
def test_a_fault_is_found_by_its_part(spec: EnvironmentSpec, name: str, words: str) -> None:
    """Each fault is found by the part of the check that is named after it."""
    finding = look_at(name, spec)

    assert not finding.ok
    assert re.search(words, finding.detail)


def test_an_unseeded_simulator_never_repeats() -> None:
    """Randomness from outside the seed is found by every comparison."""
    assert bad(examine(odd("unseeded"))).keys() == {
        "gymnasium",
        "repeats",
        "repeats after another episode",
        "repeats in other processes",
    }


@pytest.mark.parametrize(
    ("asked", "name", "words"),
    [
        ("no_such_environment", "loads", "no_such_environment"),
        ("no_such_file.toml", "loads", "no_such_file.toml"),
        (odd(id="NoSuch-v0"), "plays", "NoSuch-v0"),
        (odd(imports=("no_such_module",)), "plays", "no_such_module"),
        (odd(imports=("no_such_module",)), "plays", "PYTHONPATH="),
        (odd(imports=("odd_simulator", "no_such.module")), "plays", "no_such"),
        (odd(imports=("no_such_module",), extra="core16"), "plays", "pip install 'evopolicygym[core16]'"),
        (odd("raises"), "plays", "RuntimeError: out of fuel"),
    ],
)
def test_where_nothing_can_be_played_the_check_ends(
    asked: Any, name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spec that can't be read, made or stepped yields its reason last."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    *_, last = examine(asked)

    assert (last.name, last.ok) == (name, False)
    assert words in last.detail


def test_all_that_is_wrong_with_a_file_is_told_at_once(tmp_path: Path) -> None:
    """Who writes a spec is told of every field that is missing, unknown or impossible, and not one at a time."""
    file = tmp_path / "mine.toml"
    file.write_text('id = "Odd-v0"\nname = "x"\nmax_step = 5\nkind = "tunin"\nsuccess = { rules = "info" }\n')
    (finding,) = examine(file)
    told = [line.strip() for line in finding.detail.splitlines()]

    assert f"{file}:" == told[0]
    assert [re.findall(r"'([\w.]+)'", line) for line in told[1:]] == [
        ["name", "mine"],
        ["success.rules", "rule"],
        ["max_step", "max_steps"],
        [
            *("family", "max_steps", "objective", "reward", "termination", "observation", "action", "idle_action"),
            "success.rule",
        ],
        ["kind", "tunin", "tuning", "synthesis"],
    ]


PAGE = (ROOT / "docs" / "extend" / "own_environment.md").read_text(encoding="utf-8")


def test_the_page_shows_an_environment_that_passes(tmp_path: Path) -> None:
    """The simulator and the spec that docs/extend/own_environment.md shows, with anchors and texts, pass the check."""
    _, program, spec, terse, anchors, _ = re.findall(r"```(?:python|toml)\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "walk.py").write_text(program, encoding="utf-8")
    (tmp_path / "walk.toml").write_text(spec + anchors + terse, encoding="utf-8")

    assert bad(examine(tmp_path / "walk.toml")) == {}


def test_the_page_tells_of_every_field() -> None:
    """Each field of a spec has its words in docs/extend/own_environment.md."""
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("| "))

    assert [field.name for field in fields(EnvironmentSpec) if f"`{field.name}`" not in rows] == ["name", "world"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (odd("terminates"), "not reached.* 3 "),
        (odd(max_steps=10**9), "not tried.* 1000000000 "),
        (odd(), "^after 20 "),
    ],
)
def test_truncation_says_what_was_seen(spec: EnvironmentSpec, words: str) -> None:
    """A limit that was not reached, or would take too long, is not called found."""
    assert re.search(words, look_at("truncation", spec).detail)


def test_a_success_key_may_come_at_the_end() -> None:
    """A key of ``info`` that no step showed is no fault while no episode terminated."""
    finding = look_at("success", odd(success=Success(SuccessRule.INFO, "won")))

    assert finding.ok
    assert "'won'" in finding.detail


def test_a_trace_tells_seeds_apart() -> None:
    """Another seed is another trace, and so is another number of steps."""
    digests = {trace(odd(), seed, steps) for seed, steps in ((1, 5), (2, 5), (1, 6))}

    assert len(digests) == 3


def test_an_episode_is_repeated_twenty_times() -> None:
    """A sound simulator repeats each time; one whose order follows the hash seed differs between processes."""
    sound, odd_one = (repetitions(spec, 1, 5, 60.0) for spec in (odd(), odd("hashes")))

    assert sound == [trace(odd(), 1, 5)] * 20
    assert len(odd_one) == 20
    assert len(set(odd_one)) > 1


def test_a_repetition_that_fails_says_why() -> None:
    """Where the other process fails, its last word is the reason."""
    with pytest.raises(ChildProcessError, match="RuntimeError: out of fuel"):
        repetitions(odd("raises"), 1, 5, 60.0)
