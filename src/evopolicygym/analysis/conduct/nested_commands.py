"""The shell commands that Python programs run by ``os.system`` and ``subprocess``, read as an agent's own commands."""

import ast
from collections.abc import Iterator

from evopolicygym.analysis.conduct.material import AgentCommand, Material
from evopolicygym.analysis.conduct.program import AgentProgram
from evopolicygym.analysis.conduct.python_program import called_name, dotted, read_program
from evopolicygym.analysis.conduct.shell_commands import simple_commands

RUNNING = frozenset(
    {"system", "popen", "run", "call", "check_call", "check_output", "Popen", "getoutput", "getstatusoutput", "spawn"}
    | {"create_subprocess_shell", "create_subprocess_exec"}
)
MODULES = ("os.", "subprocess.", "asyncio.", "commands.", "pty.")
EXECUTABLE = "python3"
"""Stands for ``sys.executable``."""


def add_nested_commands(material: Material) -> None:
    """Add the commands that programs run to those of a material."""
    for program in material.programs:
        if program.language == "python" and any(name in program.text for name in ("os", "subprocess", "pty")):
            material.commands += _nested(program)


def _nested(program: AgentProgram) -> Iterator[AgentCommand]:
    read = read_program(program)
    if read is None:
        return
    for node in ast.walk(read.main.tree):
        if not (isinstance(node, ast.Call) and called_name(node) in RUNNING and node.args):
            continue
        if not dotted(node.func, read.main.imported).startswith(MODULES):
            continue
        place = program.place.at(node.lineno)
        match node.args[0]:
            case ast.Constant(value=str(text)):
                for one in simple_commands(text):
                    if one.words:
                        yield AgentCommand(one.words, place, one.text, one.directory)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                words = tuple(_word(part) for part in parts)
                yield AgentCommand(words, place, " ".join(words))
            case _:
                words = tuple(_word(part) for part in node.args)
                if called_name(node) == "create_subprocess_exec":
                    yield AgentCommand(words, place, " ".join(words))


def _word(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Attribute(attr="executable"):
            return EXECUTABLE
    return "…"
