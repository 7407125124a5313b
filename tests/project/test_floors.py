"""The house as drawn in docs/architecture.md: imports go downward, files are short, names say something."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from places import ROOT

SOURCE = ROOT / "src"
PACKAGE = "evopolicygym"
ROOMS = {
    "cli": 9,
    "inspect_tasks": 9,
    "api": 8,
    "checks": 7,
    "runs": 6,
    "judge": 5,
    "export": 5,
    "report": 5,
    "viewer": 5,
    "rollout": 4,
    "agents": 4,
    "analysis": 4,
    "baselines": 4,
    "environments": 3,
    "model_proxy": 3,
    "tracking": 3,
    "specs": 2,
    "sandbox": 2,
    "records": 2,
    "references": 2,
    "packs": 2,
    "serving": 2,
    "core": 1,
}
MAKING = {
    *("environments", "sandbox", "rollout", "agents", "judge", "runs", "references", "baselines"),
    *("model_proxy", "checks", "api", "tracking", "packs"),
}
NEVER = {
    "agents": {"environments", "records", "rollout", "judge"},
    "judge": {"environments", "agents"},
    "baselines": {"sandbox", "records", "references"},
    "analysis": MAKING,
    "export": MAKING,
    "report": MAKING,
    "viewer": MAKING,
}
LONGEST = 400
LONGEST_FUNCTION = 80
GUEST = "evopolicygym.rollout.guest"
DECODING = "evopolicygym.core.decoding"
"""May import pydantic, so that the rooms share one way of reading outside values instead of a copy each."""


def module_of(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {module_of(file): file for file in FILES}
every = pytest.mark.parametrize("module", sorted(MODULES))


def each_below(prefix: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("module", sorted(one for one in MODULES if one.startswith(f"{PACKAGE}.{prefix}")))


@cache
def imports(module: str) -> frozenset[str]:
    """Return every module that a module names in an import, wherever in the file it stands."""
    return frozenset(_imports(module))


def _imports(module: str) -> Iterator[str]:
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(MODULES[module].read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, node.module] if node.module else above)
            names = {f"{base}.{alias.name}" for alias in node.names}
            yield from (names & MODULES.keys()) or {base}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else ""


def our_imports(module: str) -> set[str]:
    return {one for one in imports(module) if one.split(".")[0] == PACKAGE}


def test_every_folder_is_a_room_of_the_house() -> None:
    """No folder lies in the package that the drawing doesn't have."""
    folders = {path.name for path in (SOURCE / PACKAGE).iterdir() if path.is_dir()} - {"__pycache__"}

    assert folders <= ROOMS.keys()


@every
def test_imports_go_downward(module: str) -> None:
    """A room imports itself and the floors below, never its neighbours or what is above."""
    floor = ROOMS.get(room(module), 10)
    upward = {
        one for one in our_imports(module) if room(one) and room(one) != room(module) and ROOMS[room(one)] >= floor
    }

    assert upward == set()


@every
def test_what_must_never_be_imported_is_not(module: str) -> None:
    """Agents meet no seed, the judge knows no game, and the reading wing needs no simulator."""
    forbidden = NEVER.get(room(module), set())
    met = {one for one in our_imports(module) if room(one) in forbidden}

    assert met == set()


@each_below("rollout.guest")
def test_the_guest_stands_alone(module: str) -> None:
    """What the sandbox sees of us imports the standard library, numpy and itself."""
    foreign = {
        one for one in imports(module) if not one.startswith(GUEST) and one.split(".")[0] not in _plain_libraries()
    }

    assert foreign == set()


def test_references_are_asked_for_by_who_plays_them_alone() -> None:
    """The policies that a person wrote are data, and reach a run through the agent ``reference`` only."""
    asking = {module for module in MODULES if any(room(one) == "references" for one in our_imports(module))}

    assert asking == {"evopolicygym.agents.builtin.reference", "evopolicygym.runs.anchors.measured"}


@each_below("core")
def test_the_words_stand_on_numpy_alone(module: str) -> None:
    """The core imports the standard library, numpy and itself; the one module that decodes pydantic besides."""
    allowed = _plain_libraries() | {PACKAGE} | ({"pydantic"} if module == DECODING else set())
    foreign = {one for one in imports(module) if one.split(".")[0] not in allowed}

    assert foreign == set()


def test_the_version_stands_alone() -> None:
    """The module that holds the version imports nothing, so that every module may read it."""
    assert set(imports(f"{PACKAGE}.version")) == set()


@each_below("runs.workspace_template")
def test_the_desk_stands_alone(module: str) -> None:
    """What is laid in a workspace imports nothing of ours."""
    assert our_imports(module) == set()


def test_modules_import_each_other_in_no_circle() -> None:
    """There is an order in which all modules can be read, type checking included."""
    graph = {module: our_imports(module) - {module} for module in MODULES}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a circle: {error.args[1]}")

    assert len(graph) <= len(order)


@every
def test_files_are_short(module: str) -> None:
    """No file has more lines than can be read in one sitting."""
    assert len(MODULES[module].read_text(encoding="utf-8").splitlines()) <= LONGEST


@every
def test_functions_are_short(module: str) -> None:
    """No function has more lines than are seen at once, its docstring included."""
    functions = [one for one in ast.walk(ast.parse(MODULES[module].read_bytes())) if isinstance(one, ast.FunctionDef)]
    long = {one.name for one in functions if (one.end_lineno or 0) - one.lineno >= LONGEST_FUNCTION}

    assert long == set()


@every
def test_names_say_something(module: str) -> None:
    """No file is named for being useful."""
    assert module.rpartition(".")[2] not in {"utils", "util", "helpers", "helper", "common", "misc"}


def _plain_libraries() -> set[str]:
    return {*sys.stdlib_module_names, "numpy"}
