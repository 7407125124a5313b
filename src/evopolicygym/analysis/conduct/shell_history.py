"""The effects of an agent's shell commands, in order: the programs that they ran and the files that they wrote.

The history keeps the text of each file that a command writes, so that it finds the text of a program that one command
writes and another runs. Commands that Python programs run by ``os.system`` and ``subprocess`` are read as the agent's.
"""

import ast
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from evopolicygym.analysis.conduct.detector import (
    MOST_PROGRAM_BYTES,
    AgentCommand,
    AgentProgram,
    Material,
    Place,
    Use,
    language_of,
)
from evopolicygym.analysis.conduct.python_program import called_name, dotted, read_program
from evopolicygym.analysis.conduct.shell_commands import SHELLS, SimpleCommand, moved, simple_commands

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
                for command in simple_commands(text):
                    if command.words:
                        yield AgentCommand(command.words, place, command.text, command.directory)
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


INTERPRETERS: Mapping[str, str] = {
    "python": "python",
    "python2": "python",
    "python3": "python",
    "pypy3": "python",
    "node": "javascript",
    "deno": "javascript",
    "bun": "javascript",
    "perl": "perl",
}
INLINE = frozenset({"-c", "-e", "--eval", "-E", "-p"})
WITH_VALUE = frozenset({"-m", "-W", "-X", "-r", "--require", "-I"})
COMPILERS = frozenset({"gcc", "g++", "cc", "c++", "clang", "clang++", "rustc", "go", "javac", "tcc"})
MOST_FILES = 2_000
"""Files that are followed."""
MOST_COMMAND_BYTES = 8 << 20
"""Of all commands of a run together."""


class ShellHistory:
    """Follows commands, and adds what they did to a material."""

    def __init__(self, material: Material, files: Mapping[str, str]) -> None:
        self.material = material
        self.files: dict[str, str] = dict(files)
        """Texts by path: those that the record holds, until something else is written there."""
        self.written: dict[str, Place] = {}
        """Where each file that was written was written."""
        self.ran: set[str] = set()
        """Paths of files that were run."""
        self._left = MOST_COMMAND_BYTES

    def follow(self, text: str, place: Place, directory: str = "") -> None:
        """Add what one call of a shell does."""
        self._left -= len(text)
        if self._left < 0:
            self.material.note("commands beyond 8 MiB were left out")
            return
        for number, command in enumerate(simple_commands(text[:MOST_PROGRAM_BYTES], self._own(directory)), 1):
            if command.words:
                self.material.commands.append(AgentCommand(command.words, place, command.text, command.directory))
            self._written_by(command, place)
            self._run_by(command, place, number)

    def write(self, path: str, text: str, place: Place) -> None:
        """Note that a file holds a text from now on."""
        if len(self.files) < MOST_FILES and len(text) <= MOST_PROGRAM_BYTES:
            self.files[self._own(path)] = text
            self.written[self._own(path)] = place

    def edit(self, path: str, old: str, new: str, place: Place) -> None:
        """Note that a part of a file was replaced, where the file is known."""
        known = self.files.get(self._own(path))
        if known is not None and old and old in known:
            self.write(path, known.replace(old, new, 1), place)

    def run_python(self, text: str, place: Place) -> None:
        """Note that a Python program was run by a tool of its own."""
        self._add(AgentProgram("python", text, place, Use.RUN, self.modules()))

    def finish(self) -> None:
        """Add the programs that were written and of which no command is known that runs them."""
        for path, place in self.written.items():
            language = language_of(path)
            if language and path not in self.ran and not is_policy(path):
                at = Place(place.file, place.line, path)
                self._add(AgentProgram(language, self.files[path], at, Use.LEFT, self.modules()))

    def modules(self) -> dict[str, str]:
        """Return the Python files that are known, by the names of their modules; those of the policy come last."""
        python = sorted((path for path in self.files if path.endswith(".py")), key=lambda path: not is_policy(path))
        return {PurePosixPath(path).stem: self.files[path] for path in python}

    def _own(self, path: str) -> str:
        """Return a path below the workspace where it is that, by whichever of its names."""
        for root in self.material.roots:
            if path == root or path.startswith(f"{root}/"):
                return path[len(root) :].lstrip("/")
        return moved("", path)

    def _at(self, command: SimpleCommand, path: str) -> str:
        return self._own(moved(command.directory, path))

    def _written_by(self, command: SimpleCommand, place: Place) -> None:
        text = command.standard_input
        if text is None and command.words[:1] in {("echo",), ("printf",)}:
            text = " ".join(command.words[1:])
        target = command.writes
        if command.words[:1] == ("tee",) and not target:
            target = next((word for word in command.words[1:] if not word.startswith("-")), "")
        is_copied = not command.words or command.words[0] in {"cat", "tee", "echo", "printf"}
        if target and text is not None and is_copied:
            self.write(self._at(command, target), text, place)
        if command.words[:1] == ("apply_patch",):
            for path, added in _added(text or " ".join(command.words[1:])):
                self.write(self._at(command, path), added, place)

    def _run_by(self, command: SimpleCommand, place: Place, number: int) -> None:
        name = command.words[0].rsplit("/", 1)[-1] if command.words else ""
        language = INTERPRETERS.get(name) or ("python" if name.startswith(("python3.", "pypy")) else "")
        if language:
            self._interpreted(command, language, Place(place.file, place.line, f"command {number}"))
        elif name in COMPILERS:
            for path in filter(language_of, command.words[1:]):
                self._run_file(command, path, language_of(path))
        elif command.words and (name in SHELLS or command.words[0].startswith(("./", "/"))):
            self._run_script(command, place)

    def _interpreted(self, command: SimpleCommand, language: str, place: Place) -> None:
        words = iter(command.words[1:])
        for word in words:
            if word in INLINE or (word.startswith("-") and not word.startswith("--") and word[-1] in "ce"):
                self._add(AgentProgram(language, next(words, ""), place, Use.RUN, self.modules()))
                return
            if word == "-m":
                module = next(words, "").replace(".", "/")
                self._run_file(command, f"{module}.py", language)
                return
            if word in WITH_VALUE:
                next(words, None)
            elif word == "-":
                break
            elif not word.startswith("-"):
                self._run_file(command, word, language)
                return
        if command.standard_input:
            self._add(AgentProgram(language, command.standard_input, place, Use.RUN, self.modules()))

    def _run_script(self, command: SimpleCommand, place: Place) -> None:
        names = (word for word in command.words[0:] if not word.startswith("-") and word not in SHELLS)
        path = self._found(command, next(names, ""))
        if path is None or path in self.ran:
            return
        text, language = self.files[path], language_of(path)
        if text.startswith("#!") and "python" in text.partition("\n")[0]:
            self._run_file(command, path, "python")
        elif language == "shell" or text.startswith("#!"):
            self.ran.add(path)
            self.follow(text, self.written.get(path, place))

    def _run_file(self, command: SimpleCommand, given: str, language: str) -> None:
        path = self._found(command, given)
        if path is None:
            return
        self.ran.add(path)
        written = self.written.get(path)
        at = Place(written.file, written.line, path) if written else Place(f"workspace/{path}", 1)
        self._add(AgentProgram(language, self.files[path], at, Use.RUN, self.modules()))

    def _found(self, command: SimpleCommand, given: str) -> str | None:
        """Return the path of a file that a command names: the very one, or else one that ends so."""
        path = self._at(command, given)
        if path in self.files:
            return path
        name = posixpath.basename(path)
        return next((known for known in self.files if name and posixpath.basename(known) == name), None)

    def _add(self, program: AgentProgram) -> None:
        if program.text and len(program.text) <= MOST_PROGRAM_BYTES:
            self.material.add(program)


def is_policy(path: str) -> bool:
    """Return whether a path of the workspace is part of the policy project."""
    return path.startswith("system/")


def _added(patch: str) -> Iterator[tuple[str, str]]:
    """Yield the files that a patch adds, in the form that Codex's ``apply_patch`` takes."""
    for part in patch.split("*** Add File: ")[1:]:
        path, _, body = part.partition("\n")
        lines = [line[1:] for line in body.partition("\n***")[0].split("\n") if line.startswith("+")]
        yield path.strip(), "\n".join(lines) + "\n"
