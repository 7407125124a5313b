"""Simulators are hidden from an agent's program wherever they lie in what it sees; which were looked for is said."""

import json
from dataclasses import replace
from pathlib import Path
from threading import Event
from zipfile import ZipFile

import pytest

from enclosed import desk, needs_bubblewrap, printed
from evopolicygym.agents.base import make
from evopolicygym.core.agent import AgentConfig, AgentEnd
from evopolicygym.core.errors import AgentError, SandboxError
from evopolicygym.environments.versions import simulators_of
from evopolicygym.sandbox import simulators
from evopolicygym.sandbox.program import view
from evopolicygym.sandbox.program.enclosed import preflight
from evopolicygym.specs import catalog
from fakes import OpenRun, RunMaker

pytestmark = needs_bubblewrap

IMPORTS = """
import importlib.util, json, os, sys
names, tree = sys.argv[1].split(","), sys.argv[2]
places = [os.path.join(at, name) for at, _, files in os.walk(tree) for name in ("", *files)]
found = set()
for place in places:
    sys.path.insert(0, place)
    importlib.invalidate_caches()
    for name in names:
        spec = importlib.util.find_spec(name)
        if spec and spec.origin:
            found.add(name)
    sys.path.remove(place)
print(json.dumps(sorted(found)))
"""
"""Prints which modules can be imported with any file or directory of a tree on the path."""
PACKAGES = {
    "gymnasium": "envs/one/lib/python3.11/site-packages/gymnasium",
    "mujoco": "pkgs/mujoco-3.2.7-py311_0/lib/python3.11/site-packages/mujoco",
    "minigrid": "pkgs/minigrid-2.3-pyhd_0/site-packages/minigrid",
    "gym": "lib/python3.11/site-packages/gym",
    "highway_env": "src/highway-env/highway_env",
    "Box2D": "odd/dist-packages/Box2D",
    "helpful": "lib/python3.11/site-packages/helpful",
}


@pytest.fixture
def run(new_run: RunMaker) -> OpenRun:
    """Return an open run whose workspace is laid out."""
    return new_run()


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Return a tree as conda makes them, with simulators in many places and something else."""
    tree = tmp_path / "conda"
    for place in PACKAGES.values():
        (tree / place).mkdir(parents=True)
        (tree / place / "__init__.py").touch()
    packages = tree / "lib/python3.11/site-packages"
    (packages / "__editable__.highway_env-1.10.pth").write_text(f"{tree / 'src/highway-env'}\n", encoding="utf-8")
    (packages / "minigrid.egg-link").write_text(f"{tree / 'pkgs'}\n", encoding="utf-8")
    with ZipFile(packages / "gymnasium_robotics-1.3-py3.11.egg", "w") as egg:
        egg.writestr("gymnasium_robotics/__init__.py", "")
    (tree / "envs/one/bin").mkdir()
    (tree / "envs/one/bin/python3.11").symlink_to("/usr/bin/python3")
    (packages / "alias").symlink_to("gym")
    return tree


@pytest.mark.parametrize("room", [view.MAX_REMOUNTED, 0])
def test_no_simulator_can_be_imported(room: int, run: OpenRun, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever place of a tree is put on the path, no simulator is found there, and what is none is."""
    monkeypatch.setattr(view, "MAX_REMOUNTED", room)
    names = ",".join([*simulators.MODULES, "alias", "helpful"])

    assert json.loads(printed(run, "python3", "-c", IMPORTS, names, str(prefix))) == ["helpful"]


def test_the_simulator_of_ones_own_environment(run: OpenRun, prefix: Path) -> None:
    """What a run's own environment is made by can't be imported either."""
    words = ("python3", "-c", IMPORTS, "helpful", str(prefix))
    ended = make(AgentConfig("command", command=words)).play(
        replace(desk(run), simulators=("helpful",)), run.door, Event()
    )

    assert ended.end is AgentEnd.FINISHED
    assert json.loads(run.paths.transcript.read_text(encoding="utf-8")) == []
    assert "helpful" in ended.findings["simulators"]


@pytest.mark.parametrize("room", [view.MAX_REMOUNTED, 0])
def test_what_a_simulator_imports_from_beside(
    room: int, run: OpenRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module given by where it lies is hidden there, compiled ones too, and one of its name elsewhere is not."""
    monkeypatch.setattr(view, "MAX_REMOUNTED", room)
    for place in ("mine/rules.py", "mine/__pycache__/rules.cpython-311.pyc", "mine/play/__init__.py", "mine/agent.py"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(b"1")
    (tmp_path / "mine/other/rules.py").parent.mkdir()
    (tmp_path / "mine/other/rules.py").write_bytes(b"1")
    (tmp_path / "link").symlink_to("mine")
    tree = str(tmp_path / "link")
    words = ("find", f"{tree}/", "-type", "f", "-size", "+0")
    hidden = (str(tmp_path / "mine/rules.py"), str(tmp_path / "mine/play"))
    ended = make(AgentConfig("command", command=(*words, "-name", "*"))).play(
        replace(desk(run), simulators=hidden), run.door, Event()
    )

    assert ended.end is AgentEnd.FINISHED, ended.message
    seen = run.paths.transcript.read_text(encoding="utf-8").splitlines()
    assert sorted(line.removeprefix(f"{tree}/") for line in seen) == ["agent.py", "other/rules.py"]
    assert str(tmp_path) not in ended.findings["simulators"].rpartition(": ")[2]


def test_a_simulator_of_ones_own_that_the_command_names(run: OpenRun, tmp_path: Path) -> None:
    """A command that names the very file of a run's simulator is refused."""
    (tmp_path / "rules.py").touch()
    agent = make(AgentConfig("command", command=("cat", str(tmp_path / "rules.py"))))

    with pytest.raises(AgentError, match=r"rules\.py"):
        agent.play(replace(desk(run), simulators=(str(tmp_path / "rules.py"),)), run.door, Event())


def test_simulators_of_a_spec() -> None:
    """A spec's simulators are the modules that its id is registered by."""
    parking = catalog.load("parking")

    assert simulators_of(parking) == ("highway_env",)
    assert simulators_of(replace(parking, id="own.game:Game-v0", imports=("other.part",))) == ("other", "own")


def test_what_was_looked_at_is_said(run: OpenRun, prefix: Path) -> None:
    """The finding names the Pythons that were tried, those of environments too, the trees and the modules."""
    found = preflight(("sh", str(prefix)), run.paths.workspace, [])["simulators"]

    assert str(prefix / "envs/one/bin/python3.11") in found.split(";")[0]
    places, _, modules = found.partition("looked for by their names in ")[2].partition(": ")
    assert {"/usr", str(prefix)} <= set(places.split(", "))
    assert modules.startswith("gymnasium, ")


def test_a_simulator_that_the_command_names(run: OpenRun, prefix: Path) -> None:
    """A command that names a simulator's own package is refused."""
    with pytest.raises(AgentError, match=PACKAGES["gym"]):
        printed(run, "sh", "-c", "true", str(prefix / PACKAGES["gym"]))


def test_a_tree_too_large_to_be_searched(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree of too many directories is refused, as it can't be said what lies in it."""
    monkeypatch.setattr(simulators, "MOST_DIRECTORIES", 3)

    with pytest.raises(SandboxError, match=" 3 "):
        simulators.search(str(prefix), ("gym",))


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("gymnasium-1.2.0.dist-info", True), ("Box2D_py-2.3.8.egg-info", True), ("highway-env-1.10-pyh_0", True),
        ("gym.cpython-311-x86_64-linux-gnu.so", True), ("gym.abi3.so", True),
        ("gym.py", True), ("gymnast", False), ("gym_of_mine.py", False), ("gym.svg", False),
    ],
)  # fmt: skip
def test_names_of_files(name: str, hidden: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a case
    """A version or a suffix makes no other module of a file, and a longer name does."""
    (tmp_path / name).mkdir() if hidden and "." not in name[-3:] else (tmp_path / name).touch()

    assert bool(simulators.search(str(tmp_path), simulators.MODULES).hidden) == hidden
