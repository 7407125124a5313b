"""Python programs of an agent, parsed and never run: their functions, their imports and their calls."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from evopolicygym.analysis.conduct.detector import MOST_PROGRAM_BYTES, AgentProgram, Location, Material
from evopolicygym.analysis.source import parse_module

Function = ast.FunctionDef | ast.AsyncFunctionDef
MOST_MODULES = 12
"""Modules of an agent's own that a program is read with."""
MOST_METHODS = 3
"""Limit on the candidates for a call by method name."""
MOST_TREES = 32
"""Limit on the cached trees: several detectors read the same program."""
MOST_NODES = 200_000
"""Limit on the nodes of a tree; a larger tree is skipped."""


@dataclass(slots=True)
class PythonModule:
    """One parsed file."""

    name: str
    tree: ast.Module
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    """The dotted names of imported names."""


@dataclass(slots=True)
class PythonProgram:
    """A program and the modules of the agent's own that it imports."""

    main: PythonModule
    modules: dict[str, PythonModule]
    """The modules by name, the main module as ``__main__``."""
    methods: dict[str, list[tuple[PythonModule, Function]]] = field(default_factory=dict)
    """The methods by name, those of policies excluded."""

    def __post_init__(self) -> None:
        """Find the methods."""
        for module in self.modules.values():
            for definition in module.classes.values():
                for part in () if is_policy_class(definition) else definition.body:
                    if isinstance(part, Function):
                        self.methods.setdefault(part.name, []).append((module, part))

    def function(self, module: PythonModule, called: ast.expr) -> list[tuple[PythonModule, Function]]:
        """Return the candidates for a called function, without those of policies."""
        match called:
            case ast.Name(id=name):
                return self._named(module, name)
            case ast.Attribute(value=ast.Name(id=base), attr=name) if base in module.imported:
                other = self.modules.get(module.imported[base].rpartition(".")[2])
                return self._named(other, name) if other else []
            case ast.Attribute(attr=name):
                return self.methods.get(name, [])[:MOST_METHODS]
        return []

    def _named(self, module: PythonModule, name: str, depth: int = 0) -> list[tuple[PythonModule, Function]]:
        if name in module.functions:
            return [(module, module.functions[name])]
        if name in module.classes and not is_policy_class(module.classes[name]):
            constructor = find_method(module.classes[name], "__init__")
            return [(module, constructor)] if constructor else []
        whole = module.imported.get(name, "")
        from_module, _, own = whole.rpartition(".")
        other = self.modules.get(from_module.rpartition(".")[2]) if from_module else None
        return self._named(other, own, depth + 1) if other and depth < MOST_MODULES else []


def read_program(program: AgentProgram) -> PythonProgram | None:
    """Return a program with its modules; None if it can't be parsed or is too large."""
    main = _module("__main__", program.text)
    if main is None:
        return None
    modules, waiting = {"__main__": main}, [main]
    while waiting and len(modules) < MOST_MODULES:
        for whole in waiting.pop().imported.values():
            for name in whole.split("."):
                text = program.modules.get(name)
                if text is not None and name not in modules and text != program.text:
                    imported = _module(name, text)
                    if imported is not None:
                        modules[name] = imported
                        waiting.append(imported)
    return PythonProgram(main, modules)


def is_policy_class(definition: ast.ClassDef) -> bool:
    """Return whether a class is a policy, whose planning is its own thinking."""
    return definition.name == "Policy" or find_method(definition, "act") is not None


def find_method(definition: ast.ClassDef, name: str) -> Function | None:
    """Return a method of a class by its name."""
    return next((part for part in definition.body if isinstance(part, Function) and part.name == name), None)


def called_name(call: ast.Call) -> str:
    """Return the last name of the called function; empty if it has none."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def dotted_name(node: ast.expr, imported: dict[str, str] | None = None) -> str:
    """Return a dotted name, its first part as imported; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    first = (imported or {}).get(node.id, node.id)
    return ".".join([first, *reversed(parts)])


@lru_cache(MOST_TREES)
def _module(name: str, text: str) -> PythonModule | None:
    if len(text) > MOST_PROGRAM_BYTES:
        return None
    tree = parse_module(_without_magics(text).encode("utf-8", "replace"))
    if tree is None:
        return None
    module = PythonModule(name, tree)
    for number, node in enumerate(ast.walk(tree)):
        if number > MOST_NODES:
            return None
        _note(module, node)
    for definition in module.classes.values():
        for part in definition.body:
            if isinstance(part, Function) and module.functions.get(part.name) is part:
                del module.functions[part.name]
    return module


def _note(module: PythonModule, node: ast.AST) -> None:
    """Record the definitions and imports of a node."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            module.functions.setdefault(node.name, node)
        case ast.ClassDef():
            module.classes.setdefault(node.name, node)
        case ast.Import(names=names):
            for alias in names:
                first = alias.name.partition(".")[0]
                module.imported[alias.asname or first] = alias.name if alias.asname else first
        case ast.ImportFrom(module=base, names=names):
            for alias in names:
                module.imported[alias.asname or alias.name] = f"{base or ''}.{alias.name}".lstrip(".")


def _without_magics(text: str) -> str:
    """Return a text without what a shell or a notebook adds: a margin common to all lines, a first empty line."""
    stripped = text.lstrip("\n")
    margin = len(stripped) - len(stripped.lstrip(" "))
    lines = text.split("\n")
    if margin and all(not line.strip() or line[:margin].isspace() for line in lines):
        return "\n".join(line[margin:] for line in lines)
    return text


MOST_TEXT = 4096


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One call."""

    name: str
    """The dotted name, its first part as imported; it begins with a dot if the object is not a name."""
    texts: tuple[str, ...]
    """Constant texts among its arguments, of names that hold one too; parts of a text that is put together, each."""
    paths: tuple[str, ...]
    """Arguments that are texts as a whole, or begin with one."""
    names: tuple[str, ...]
    """Names among its arguments, as they were imported."""
    location: Location
    words: str
    """The line of the program."""
    program: AgentProgram


def function_calls(material: Material) -> Iterator[FunctionCall]:
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
                arguments = (*node.args, *(keyword.value for keyword in node.keywords))
                texts = tuple(text for argument in arguments for text in _texts(argument, constants))
                location, words = program.location.at(node.lineno), program.line(node.lineno)
                names = tuple(dotted_name(argument, read.main.imported) for argument in arguments)
                paths = tuple(path for argument in arguments if (path := _beginning(argument, constants)))
                yield FunctionCall(_name(node, read.main), texts, paths, names, location, words, program)


def imported_modules(material: Material) -> Iterator[tuple[str, Location, str]]:
    """Yield the dotted names that Python programs import, with the file and the line."""
    for program in material.programs:
        read = read_program(program) if program.language == "python" else None
        for node in ast.walk(read.main.tree) if read else ():
            match node:
                case ast.Import(names=names):
                    modules = [alias.name for alias in names]
                case ast.ImportFrom(module=str(module), level=0):
                    modules = [module]
                case _:
                    continue
            for name in modules:
                yield name, program.location.at(node.lineno), program.line(node.lineno)


def _name(node: ast.Call, module: PythonModule) -> str:
    whole = dotted_name(node.func, module.imported)
    if whole or not isinstance(node.func, ast.Attribute):
        return whole
    inner = node.func.value
    if isinstance(inner, ast.Call) and (base := dotted_name(inner.func, module.imported)):
        return f"{base}.{node.func.attr}"
    return f".{node.func.attr}"


def _constants(module: PythonModule) -> dict[str, str]:
    """Return the names that are bound to a constant text."""
    return {
        target.id: text[:MOST_TEXT]
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Assign)
        for text in _texts(node.value, {})
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _beginning(node: ast.expr, constants: dict[str, str]) -> str:
    """Return the constant text at the beginning of an argument; empty if there is none."""
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
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value[:MOST_TEXT]
        elif isinstance(part, ast.Name) and part.id in constants:
            yield constants[part.id]
