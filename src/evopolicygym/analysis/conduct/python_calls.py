"""The calls in an agent's Python programs: what is called, by its whole name, and with which texts."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from evopolicygym.analysis.conduct.finding import Place
from evopolicygym.analysis.conduct.material import Material
from evopolicygym.analysis.conduct.program import AgentProgram
from evopolicygym.analysis.conduct.python_program import PythonModule, dotted, read_program

MOST_TEXT = 4096


@dataclass(frozen=True, slots=True)
class Called:
    """One call."""

    name: str
    """With dots, its first name as it was imported; methods of what is no name begin with a dot."""
    texts: tuple[str, ...]
    """Constant texts among its arguments, of names that hold one too; parts of a text that is put together, each."""
    paths: tuple[str, ...]
    """Arguments that are texts as a whole, or begin with one."""
    names: tuple[str, ...]
    """Names among its arguments, as they were imported."""
    place: Place
    words: str
    """The line of the program."""
    program: AgentProgram


def called(material: Material) -> Iterator[Called]:
    """Yield all calls of all Python programs."""
    for program in material.programs:
        if program.language != "python":
            continue
        read = read_program(program)
        if read is None:
            continue
        constants = _constants(read.main)
        for node in ast.walk(read.main.tree):
            if isinstance(node, ast.Call):
                arguments = (*node.args, *(one.value for one in node.keywords))
                texts = tuple(text for one in arguments for text in _texts(one, constants))
                place, words = program.place.at(node.lineno), program.line(node.lineno)
                names = tuple(dotted(one, read.main.imported) for one in arguments)
                paths = tuple(path for one in arguments if (path := _beginning(one, constants)))
                yield Called(_name(node, read.main), texts, paths, names, place, words, program)


def imports(material: Material) -> Iterator[tuple[str, Place, str]]:
    """Yield what Python programs import, by whole names, with the place and the line."""
    for program in material.programs:
        read = read_program(program) if program.language == "python" else None
        for node in ast.walk(read.main.tree) if read else ():
            match node:
                case ast.Import(names=names):
                    found = [alias.name for alias in names]
                case ast.ImportFrom(module=str(module), level=0):
                    found = [module]
                case _:
                    continue
            for name in found:
                yield name, program.place.at(node.lineno), program.line(node.lineno)


def _name(node: ast.Call, module: PythonModule) -> str:
    whole = dotted(node.func, module.imported)
    if whole or not isinstance(node.func, ast.Attribute):
        return whole
    inner = node.func.value
    if isinstance(inner, ast.Call) and (base := dotted(inner.func, module.imported)):
        return f"{base}.{node.func.attr}"
    return f".{node.func.attr}"


def _constants(module: PythonModule) -> dict[str, str]:
    """Return the names that stand for one constant text."""
    return {
        target.id: text[:MOST_TEXT]
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Assign)
        for text in _texts(node.value, {})
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _beginning(node: ast.expr, constants: dict[str, str]) -> str:
    """Return the text with which an argument begins; empty where it begins with something else."""
    match node:
        case ast.Constant(value=str(text)) | ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            return text[:MOST_TEXT]
        case ast.Name(id=name):
            return constants.get(name, "")
        case ast.BinOp(left=ast.Constant(value=str(text))):
            return text[:MOST_TEXT]
    return ""


def _texts(node: ast.expr, constants: dict[str, str]) -> Iterator[str]:
    """Yield the texts in an argument; of calls within it too, as of ``Path("/")``."""
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value[:MOST_TEXT]
        elif isinstance(one, ast.Name) and one.id in constants:
            yield constants[one.id]
