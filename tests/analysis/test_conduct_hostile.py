"""Programs that no agent of good will writes: they are read within bounds, and end nothing."""

import ast
import time
from pathlib import Path

import pytest

from evopolicygym.analysis.conduct.detector import AgentProgram, Location, Material, Use
from evopolicygym.analysis.conduct.shell_history import add_nested_commands
from labelled_conduct import DETECTORS

MOST_S = 30
"""Of processor time, for what takes a few seconds."""
TURN = "".join(f"  a{k} = s{k} + action{k}\n  s{k} += a{k}\n  action{k} = s{k - 1}\n" for k in range(130))
PYTHON = {
    "elifs": "if 1: pass\n" + "elif episode_index == 1: y = [1, 2, 3, 4]\n" * 500,
    "loops": "\n".join(f"for i in y:\n  action = s{k}\n  s{k} += action\n  r += s{k}" for k in range(100)),
    "nested loops": "".join(" " * d + f"for x{d} in y:\n" for d in range(90)) + " " * 90 + "action = s; s += action\n",
    "long loops": f"for t in y:\n{TURN}" * 2,
    "calls": "f" + "()" * 30_000,
    "attributes": "a" + ".b" * 30_000 + "()",
    "functions": "\n".join(f"def f{k}(a): return f{k + 1}(a)" for k in range(300)) + "\nf0(1)",
    "methods": "\n".join(f"class C{k}:\n  def m(self): self.x.m()" for k in range(300)) + "\nfor i in y: q.m(q)",
    "names": "x = [" + "a," * 4_000 + "]",
    "chain of names": "\n".join(f"v{k} = v{k + 1} + episode_index" for k in range(500)),
    "itself": "from one import f\nf()",
    "null bytes": "import os\0",
    "brackets": "(" * 30_000,
}
BRACES = {
    "loops": "for(;;){" * 2_000,
    "comments": "/*" * 200_000,
    "heads": "for for for " * 30_000,
    "functions": "f(x){" * 4_000,
    "arrows": "a.b->" * 60_000,
    "sums": "while(1){" + "x += y; " * 20_000 + "}",
    "quotes": "\"'" * 100_000,
}


each = pytest.mark.parametrize(
    ("language", "text"),
    [*(("python", text) for text in PYTHON.values()), *(("c", text) for text in BRACES.values())],
    ids=[*(f"python-{name}" for name in PYTHON), *(f"c-{name}" for name in BRACES)],
)


def look_at(language: str, text: str) -> None:
    """Have all detectors look at a program, in each of its uses."""
    material = Material()
    modules = {"one": "from two import f", "two": "from one import f"}
    for use in Use:
        material.add(AgentProgram(language, text, Location("program", 1), use, modules))
    add_nested_commands(material)
    for detector in DETECTORS.values():
        list(detector.look(material))


@each
def test_hostile_programs_are_read(language: str, text: str) -> None:
    """Whatever a program holds, all detectors come to an end, and none fails."""
    look_at(language, text)


@pytest.mark.nightly
@each
def test_hostile_programs_are_read_soon(language: str, text: str) -> None:
    """All detectors are done soon."""
    start = time.process_time()
    look_at(language, text)

    assert time.process_time() - start < MOST_S


def test_a_run_has_bounds() -> None:
    """Programs beyond what is read of a run are left out, and a note says so; the same program is read once."""
    material = Material()
    for number in range(6):
        material.add(AgentProgram("python", f"{number}" * (1 << 20), Location("program", 1), Use.LEFT))
        material.add(AgentProgram("python", f"{number}" * (1 << 20), Location("program", 1), Use.LEFT))

    assert len(material.programs) == 4
    assert ["4 MiB" in note for note in material.notes] == [True]


@pytest.mark.parametrize("name", ["argparse", "ast", "statistics", "heapq", "textwrap", "typing"])
def test_ordinary_programs_are_not_found(name: str) -> None:
    """Modules of Python's own, as an agent's programs, have no finding that deserves a person's reading."""
    (path,) = Path(ast.__file__).parent.glob(f"{name}.py")
    material = Material()
    for use in Use:
        material.add(AgentProgram("python", path.read_text(encoding="utf-8"), Location("program", 1), use))
    found = [one for name in ("own_simulator", "case_answers") for one in DETECTORS[name].look(material)]

    assert found == []
