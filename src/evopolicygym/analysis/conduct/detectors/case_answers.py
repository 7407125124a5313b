"""Answers to cases in a policy: tables of plans or values, looked up by episode index or exact first observation.

A *plan* is a sequence of at least four values, or a text of at least six letters: actions to play step by step.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from evopolicygym.analysis.conduct.data_flow import name_of, names_in
from evopolicygym.analysis.conduct.detector import (
    AgentProgram,
    AuditFinding,
    Detector,
    Grade,
    Material,
    Use,
    shorten_evidence,
)
from evopolicygym.analysis.conduct.python_program import called_name, find_method, read_program

FEWEST_STEPS = 4
FEWEST_LETTERS = 6
FEWEST_DIGITS = 3
"""Least number of decimals of a recorded number."""
NEAR = 0.01
"""A tolerance with which an observation is compared to a recorded one."""
EXACT = frozenset(
    {"tobytes", "tostring", "hash", "md5", "sha1", "sha256", "hexdigest", "digest", "crc32", "adler32", "repr"}
)
"""Functions that reduce an observation to a key."""
ROUNDED = frozenset({"round", "around", "rint"})
NEAREST = frozenset({"argmin", "nanargmin", "cdist"})
LOADING = frozenset({"load", "loads", "literal_eval"})


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """A table in a policy."""

    entries: int
    has_plans: bool
    """Whether all its values are plans."""


LOADED = AnswerTable(0, has_plans=True)
"""A table that is read from a data file."""


def tables(tree: ast.Module) -> Mapping[str, AnswerTable]:
    """Return the tables of a program by their names."""
    by_name: dict[str, AnswerTable] = {}
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        match node:
            case ast.Assign(targets=targets, value=value):
                assigned, table = list(targets), _table(value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                assigned, table = [target], _table(value)
            case _:
                continue
        for bound in assigned:
            if table and (name := name_of(bound)) and not isinstance(bound, ast.Subscript):
                by_name[name] = table
    return by_name


def is_plan(node: ast.expr) -> bool:
    """Return whether a literal is a sequence that would be played step by step."""
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return len(parts) >= FEWEST_STEPS and all(
                _is_number(part) or isinstance(part, ast.List | ast.Tuple) for part in parts
            )
        case ast.Constant(value=str(text)):
            return len(text) >= FEWEST_LETTERS and " " not in text
        case ast.Constant(value=bytes(text)):
            return len(text) >= FEWEST_LETTERS
        case ast.Call(args=[first, *_]) if called_name(node) in {"array", "list", "tuple", "deque", "asarray"}:
            return is_plan(first)
        case ast.BinOp(left=ast.List(elts=parts), op=ast.Mult()):
            return bool(parts)
    return False


def case_names(tree: ast.Module) -> frozenset[str]:
    """Return the names that hold the index of the episode, or are derived from it."""
    names = {"episode_index"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and (reset := find_method(node, "reset")):
            arguments = [argument.arg for argument in reset.args.args]
            names |= set(arguments[1:2])
    return _derived_names(tree, names, lambda _value: False)


def start_names(tree: ast.Module) -> frozenset[str]:
    """Return the names that identify a whole observation: a hash, rounded values, the nearest known observation."""
    obs_names = observation_names(tree)
    return _derived_names(tree, set(), lambda value: is_exact(value, obs_names))


def observation_names(tree: ast.Module) -> frozenset[str]:
    """Return the names that policies give to an observation."""
    names = {"obs", "observation"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and (act := find_method(node, "act")):
            names |= {argument.arg for argument in act.args.args[1:2]}
    return frozenset(names)


def is_exact(value: ast.expr, obs_names: frozenset[str]) -> bool:
    """Return whether an expression identifies a whole observation, as a hash or the nearest known observation does."""
    if names_in(value).isdisjoint(obs_names):
        return False
    calls = {called_name(node) for node in ast.walk(value) if isinstance(node, ast.Call)}
    return bool(calls & (EXACT | NEAREST)) or ("tuple" in calls and bool(calls & ROUNDED | calls & {"tolist"}))


def is_exact_test(test: ast.expr) -> bool:
    """Return whether a condition compares observations with recorded numbers."""
    for node in ast.walk(test):
        if isinstance(node, ast.Call) and called_name(node) in {"allclose", "array_equal", "isclose", "array_equiv"}:
            return any(_is_precise(part) for part in ast.walk(node))
        if isinstance(node, ast.Compare) and any(_is_precise(part) for part in ast.walk(node)):
            tolerances = [comparator for comparator in node.comparators if isinstance(comparator, ast.Constant)]
            is_near = any(
                isinstance(tolerance.value, float) and 0 < tolerance.value <= NEAR for tolerance in tolerances
            )
            if is_near or any(isinstance(op, ast.Eq) for op in node.ops):
                return True
    return False


def _derived_names(tree: ast.Module, names: set[str], begins: Callable[[ast.expr], bool]) -> frozenset[str]:
    for _ in range(4):
        size = len(names)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and (not names_in(node.value).isdisjoint(names) or begins(node.value)):
                names |= {name for name in map(name_of, node.targets) if name and _is_scalar(node.value)}
        if len(names) == size:
            break
    return frozenset(names)


def _is_scalar(value: ast.expr) -> bool:
    """Return whether a value is a key, not the result of a lookup."""
    looked_up = any(isinstance(node, ast.Call) and called_name(node) == "get" for node in ast.walk(value))
    return not looked_up and not (isinstance(value, ast.Subscript) and not isinstance(value.slice, ast.Slice))


def _table(value: ast.expr) -> AnswerTable | None:
    match value:
        case ast.Dict(values=values) if values:
            return AnswerTable(len(values), all(is_plan(entry) for entry in values))
        case ast.List(elts=parts) | ast.Tuple(elts=parts) if len(parts) > 1:
            return AnswerTable(len(parts), all(is_plan(entry) for entry in parts))
        case ast.Call(args=[first, *_]) if called_name(value) in {"array", "asarray", "dict"}:
            return _table(first)
        case ast.Call() if called_name(value) in LOADING:
            return LOADED
    return None


def _is_number(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=int() | float() | str()):
            return True
        case ast.UnaryOp(operand=ast.Constant(value=int() | float())):
            return True
    return False


def _is_precise(node: ast.AST) -> bool:
    """Return whether a number has three digits behind the point that aren't nothing, as recorded ones have."""
    if not (isinstance(node, ast.Constant) and isinstance(node.value, float)):
        return False
    digits = repr(abs(node.value)).partition(".")[2].rstrip("0")
    return len(digits) >= FEWEST_DIGITS and len(digits.lstrip("0")) > 1


def chains(tree: ast.Module) -> Iterator[list[tuple[ast.expr, list[ast.stmt]]]]:
    """Yield every chain of ``if`` and ``elif`` whole, or of ``if`` statements in a row, as tests with their blocks."""
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Match):
            valued = [(node.subject, case.body) for case in node.cases if isinstance(case.pattern, ast.MatchValue)]
            if valued:
                yield valued
        if not isinstance(node, ast.If) or id(node) in inner:
            continue
        chain, last = [(node.test, node.body)], node
        while len(last.orelse) == 1 and isinstance(last.orelse[0], ast.If):
            last = last.orelse[0]
            inner.add(id(last))
            chain.append((last.test, last.body))
        yield chain


NAME = "case_answers"
FEWEST_BRANCHES = 3
MANY = 6
"""Entries of a table of single values, by the index of the episode, from which it is more than a few variants."""


def look(material: Material) -> Iterator[AuditFinding]:
    """Yield every lookup of answers in a policy."""
    for program in material.programs:
        if program.language != "python" or program.use is not Use.POLICY:
            continue
        read = read_program(program)
        if read is not None:
            yield from _lookups(program, read.main.tree)
            yield from _chains(program, read.main.tree)


def _lookups(program: AgentProgram, tree: ast.Module) -> Iterator[AuditFinding]:
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
        grade = _grade(table, by, is_played=is_played)
        if by and grade and (name, by) not in seen:
            seen.add((name, by))
            entries = f"{table.entries} entries" if table.entries else "a data file"
            what = f"looks up {'plans' if table.has_plans else 'values'} by {by} in {name} ({entries})"
            yield _finding(program, grade, what, node.lineno)


def _grade(table: AnswerTable, by: str, *, is_played: bool) -> Grade | None:
    """Return the grade of a lookup; None if it is not a finding."""
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


def _chains(program: AgentProgram, tree: ast.Module) -> Iterator[AuditFinding]:
    cases, starts = case_names(tree), start_names(tree)
    for chain in chains(tree):
        by_case = [block for test, block in chain if names_in(test) & cases]
        by_start = [block for test, block in chain if is_exact_test(test) or names_in(test) & starts]
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


def _finding(program: AgentProgram, grade: Grade, what: str, line: int) -> AuditFinding:
    return AuditFinding(
        NAME, grade, shorten_evidence(what), program.location.at(line), shorten_evidence(program.line(line))
    )


DETECTOR = Detector("answers to cases that a policy holds", look)
