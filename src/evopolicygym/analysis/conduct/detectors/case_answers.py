"""Answers to cases in a policy: plans, or what a case hides, looked up by its index or its exact first observation."""

import ast
from collections.abc import Iterator

from evopolicygym.analysis.conduct.answer_tables import (
    AnswerTable,
    case_names,
    chains,
    exact_tests,
    is_exact,
    is_plan,
    observation_names,
    start_names,
    tables,
)
from evopolicygym.analysis.conduct.detector import Detector
from evopolicygym.analysis.conduct.finding import ConductFinding, Grade, shortened
from evopolicygym.analysis.conduct.loop_flow import name_of, names_in
from evopolicygym.analysis.conduct.material import Material
from evopolicygym.analysis.conduct.program import AgentProgram, Use
from evopolicygym.analysis.conduct.python_program import called_name, read_program

NAME = "case_answers"
FEWEST_BRANCHES = 3
MANY = 6
"""Entries of a table of single values, by the index of the episode, from which it is more than a few variants."""


def look(material: Material) -> Iterator[ConductFinding]:
    """Yield every lookup of answers in a policy."""
    for program in material.programs:
        if program.language != "python" or program.use is not Use.POLICY:
            continue
        read = read_program(program)
        if read is not None:
            yield from _lookups(program, read.main.tree)
            yield from _chains(program, read.main.tree)


def _lookups(program: AgentProgram, tree: ast.Module) -> Iterator[ConductFinding]:
    known, cases, starts = tables(tree), case_names(tree), start_names(tree)
    seen_names = observation_names(tree)
    is_played = _is_played_in_steps(tree)
    seen: set[tuple[str, str]] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=value, slice=key, ctx=ast.Load()):
                pass
            case ast.Call(func=ast.Attribute(value=value, attr="get"), args=[key, *_]):
                pass
            case _:
                continue
        name = name_of(value)
        table = known.get(name)
        if table is None or isinstance(value, ast.Subscript):
            continue
        by = "the index of the episode" if names_in(key) & cases else ""
        if not by and (names_in(key) & starts or is_exact(key, seen_names)):
            by = "an exact observation"
        grade = _graded(table, by, is_played=is_played)
        if by and grade and (name, by) not in seen:
            seen.add((name, by))
            entries = f"{table.entries} entries" if table.entries else "a data file"
            what = f"looks up {'plans' if table.has_plans else 'values'} by {by} in {name} ({entries})"
            yield _finding(program, grade, what, node.lineno)


def _graded(table: AnswerTable, by: str, *, is_played: bool) -> Grade | None:
    """Return how grave a lookup is; None where it is none."""
    if table.has_plans:
        return Grade.SERIOUS if is_played else None if "exact" in by else Grade.LOOK
    if "exact" in by:
        return None
    return Grade.LOOK if table.entries >= MANY else Grade.NOTE


def _is_played_in_steps(tree: ast.Module) -> bool:
    """Return whether a policy counts its steps, or takes them one by one from a sequence."""
    for node in ast.walk(tree):
        match node:
            case ast.AugAssign(target=ast.Attribute(), op=ast.Add(), value=ast.Constant(value=1)):
                return True
            case ast.Call() if called_name(node) in {"pop", "popleft", "next"}:
                return True
    return False


def _chains(program: AgentProgram, tree: ast.Module) -> Iterator[ConductFinding]:
    cases, starts = case_names(tree), start_names(tree)
    for chain in chains(tree):
        by_case = [block for test, block in chain if names_in(test) & cases]
        by_start = [block for test, block in chain if exact_tests(test) or names_in(test) & starts]
        for blocks, by in ((by_case, "the index of the episode"), (by_start, "exact observations")):
            plans = sum(_holds_plan(block) for block in blocks)
            line = chain[0][0].lineno
            if plans >= FEWEST_BRANCHES:
                yield _finding(program, Grade.SERIOUS, f"{plans} branches by {by} hold plans", line)
            elif len(blocks) >= MANY:
                yield _finding(program, Grade.LOOK, f"{len(blocks)} branches by {by}", line)


def _holds_plan(block: list[ast.stmt]) -> bool:
    return any(
        isinstance(node, ast.Assign | ast.Return) and node.value is not None and is_plan(node.value)
        for statement in block
        for node in ast.walk(statement)
    )


def _finding(program: AgentProgram, grade: Grade, what: str, line: int) -> ConductFinding:
    return ConductFinding(NAME, grade, shortened(what), program.place.at(line), shortened(program.line(line)))


DETECTOR = Detector("answers to cases that a policy holds", look)
