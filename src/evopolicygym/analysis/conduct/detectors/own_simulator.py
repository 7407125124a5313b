"""A simulator of the agent's own that is stepped outside the judge, or the environments' own simulators."""

import ast
from collections.abc import Iterator

from evopolicygym.analysis.conduct.data_flow import main_block
from evopolicygym.analysis.conduct.detector import (
    AgentProgram,
    AuditFinding,
    Detector,
    Grade,
    Material,
    Use,
    is_simulator,
    line_of,
    shorten_evidence,
)
from evopolicygym.analysis.conduct.python_program import (
    PythonProgram,
    called_name,
    dotted_name,
    imported_modules,
    read_program,
)
from evopolicygym.analysis.conduct.rollouts import Rollout, brace_rollouts, rollouts

NAME = "own_simulator"
BRACES = frozenset({"c", "javascript", "perl"})
MAKING = frozenset(
    {"make", "make_vec", "from_xml_string", "from_xml_path", "mj_step", "b2World", "load", "World", "Space"}
)
"""Functions of simulators' packages that make or step a world."""
STEPPING = frozenset({"step", "Step", "reset", "mj_step", "stepSimulation"})


def look(material: Material) -> Iterator[AuditFinding]:
    """Yield every rollout that was played outside the judge, as far as programs show it."""
    for program in material.programs:
        if program.language == "python":
            yield from _python(program)
        elif program.language in BRACES and program.is_outside:
            yield from _braces(program)
    for name, location, words in imported_modules(material):
        if is_simulator(name):
            yield AuditFinding(
                NAME, Grade.LOOK, f"imports the simulator's package {name}", location, shorten_evidence(words)
            )


def _python(program: AgentProgram) -> Iterator[AuditFinding]:
    read = read_program(program)
    if read is None:
        return
    body = read.main.tree.body if program.is_outside else main_block(read.main.tree)
    if not body:
        return
    worlds = list(_worlds(read)) if program.is_outside else []
    for line, name in worlds[:3]:
        yield _finding(program, _grade(program, Grade.SERIOUS), f"makes or steps a world of {name}", line)
    for rollout in sorted(rollouts(read, body), key=lambda item: (item.module, item.line)):
        grade = Grade.SERIOUS if rollout.counts and not rollout.is_fitted else Grade.LOOK
        yield _finding(program, _grade(program, grade), _describe(rollout), rollout.line, _text(program, rollout))


def _grade(program: AgentProgram, grade: Grade) -> Grade:
    """Return a grade, lowered if no known command ran the program."""
    return grade if program.use is Use.RUN else min(grade, Grade.LOOK, key=lambda candidate: candidate.rank)


def _describe(rollout: Rollout) -> str:
    state = ", ".join(rollout.state[:4])
    model = "a model that is made of data" if rollout.is_fitted else "dynamics"
    counted = ", and counts what it is worth or ends on it" if rollout.counts else ""
    return f"plays {model} outside the judge: {state} moved by {rollout.action} in a loop{counted}"


def _text(program: AgentProgram, rollout: Rollout) -> str:
    """Return the text of the module in which a rollout stands."""
    return program.text if rollout.module == "__main__" else program.modules.get(rollout.module, "")


def _finding(program: AgentProgram, grade: Grade, what: str, line: int, text: str | None = None) -> AuditFinding:
    words = line_of(program.text if text is None else text, line)
    location = program.location.at(line) if text is None or text == program.text else program.location
    return AuditFinding(NAME, grade, what, location, shorten_evidence(words))


def _worlds(read: PythonProgram) -> Iterator[tuple[int, str]]:
    """Yield the lines that make or step a simulator's world, with the package."""
    for module in read.modules.values():
        packages = sorted(name for name in module.imported.values() if is_simulator(name))
        if not packages or module is not read.main:
            continue
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call):
                continue
            whole = dotted_name(node.func, module.imported)
            made = is_simulator(whole) and called_name(node) in MAKING | STEPPING
            if made or whole in packages or called_name(node) in {"mj_step", "stepSimulation"}:
                yield node.lineno, packages[0]


def _braces(program: AgentProgram) -> Iterator[AuditFinding]:
    for rollout in brace_rollouts(program.text):
        grade = _grade(program, Grade.SERIOUS if rollout.counts else Grade.LOOK)
        what = f"plays dynamics outside the judge: a state moved by {rollout.action} in a loop"
        yield _finding(program, grade, what, rollout.line)


DETECTOR = Detector("a simulator of its own that is played outside the judge", look)
