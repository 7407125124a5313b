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
    Location,
    Material,
    Use,
    language_of,
)
from evopolicygym.analysis.conduct.python_program import called_name, dotted_name, read_program
from evopolicygym.analysis.conduct.shell_commands import SHELLS, SimpleCommand, resolve_path, simple_commands

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
            material.commands += _nested_commands(program)


def _nested_commands(program: AgentProgram) -> Iterator[AgentCommand]:
    read = read_program(program)
    if read is None:
        return
    for node in ast.walk(read.main.tree):
        if not (isinstance(node, ast.Call) and called_name(node) in RUNNING and node.args):
            continue
        if not dotted_name(node.func, read.main.imported).startswith(MODULES):
            continue
        location = program.location.at(node.lineno)
        match node.args[0]:
            case ast.Constant(value=str(text)):
                for command in simple_commands(text):
                    if command.words:
                        yield AgentCommand(command.words, location, command.text, command.directory)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                words = tuple(_word(part) for part in parts)
                yield AgentCommand(words, location, " ".join(words))
            case _:
                words = tuple(_word(part) for part in node.args)
                if called_name(node) == "create_subprocess_exec":
                    yield AgentCommand(words, location, " ".join(words))


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
"""Limit on the bytes of all commands of a run."""


class ShellHistory:
    """Follows commands, and adds what they did to a material."""

    def __init__(self, material: Material, files: Mapping[str, str]) -> None:
        self.material = material
        self.files: dict[str, str] = dict(files)
        """The texts by path: those of the record, until a command writes there."""
        self.written: dict[str, Location] = {}
        """The place of the command that wrote each file."""
        self.ran: set[str] = set()
        """Paths of files that were run."""
        self._left = MOST_COMMAND_BYTES

    def follow(self, text: str, location: Location, directory: str = "") -> None:
        """Add the effects of a shell call."""
        self._left -= len(text)
        if self._left < 0:
            self.material.note("commands beyond 8 MiB were left out")
            return
        for number, command in enumerate(simple_commands(text[:MOST_PROGRAM_BYTES], self._own(directory)), 1):
            if command.words:
                self.material.commands.append(AgentCommand(command.words, location, command.text, command.directory))
            self._written_by(command, location)
            self._run_by(command, location, number)

    def write(self, path: str, text: str, location: Location) -> None:
        """Record the new text of a file."""
        if len(self.files) < MOST_FILES and len(text) <= MOST_PROGRAM_BYTES:
            self.files[self._own(path)] = text
            self.written[self._own(path)] = location

    def edit(self, path: str, old: str, new: str, location: Location) -> None:
        """Record that a part of a known file was replaced."""
        known = self.files.get(self._own(path))
        if known is not None and old and old in known:
            self.write(path, known.replace(old, new, 1), location)

    def run_python(self, text: str, location: Location) -> None:
        """Record a Python program that a tool ran."""
        self._add(AgentProgram("python", text, location, Use.RUN, self.modules()))

    def finish(self) -> None:
        """Add the written programs that no known command runs."""
        for path, location in self.written.items():
            language = language_of(path)
            if language and path not in self.ran and not is_policy(path):
                at = Location(location.file, location.line, path)
                self._add(AgentProgram(language, self.files[path], at, Use.LEFT, self.modules()))

    def modules(self) -> dict[str, str]:
        """Return the known Python files by module name, those of the policy last."""
        python = sorted((path for path in self.files if path.endswith(".py")), key=lambda path: not is_policy(path))
        return {PurePosixPath(path).stem: self.files[path] for path in python}

    def _own(self, path: str) -> str:
        """Return a path relative to the workspace, if it is below one of the workspace's paths."""
        for root in self.material.roots:
            if path == root or path.startswith(f"{root}/"):
                return path[len(root) :].lstrip("/")
        return resolve_path("", path)

    def _at(self, command: SimpleCommand, path: str) -> str:
        return self._own(resolve_path(command.directory, path))

    def _written_by(self, command: SimpleCommand, location: Location) -> None:
        text = command.standard_input
        if text is None and command.words[:1] in {("echo",), ("printf",)}:
            text = " ".join(command.words[1:])
        target = command.writes
        if command.words[:1] == ("tee",) and not target:
            target = next((word for word in command.words[1:] if not word.startswith("-")), "")
        is_copied = not command.words or command.words[0] in {"cat", "tee", "echo", "printf"}
        if target and text is not None and is_copied:
            self.write(self._at(command, target), text, location)
        if command.words[:1] == ("apply_patch",):
            for path, added in _patched_files(text or " ".join(command.words[1:])):
                self.write(self._at(command, path), added, location)

    def _run_by(self, command: SimpleCommand, location: Location, number: int) -> None:
        name = command.words[0].rsplit("/", 1)[-1] if command.words else ""
        language = INTERPRETERS.get(name) or ("python" if name.startswith(("python3.", "pypy")) else "")
        if language:
            self._interpreted(command, language, Location(location.file, location.line, f"command {number}"))
        elif name in COMPILERS:
            for path in filter(language_of, command.words[1:]):
                self._run_file(command, path, language_of(path))
        elif command.words and (name in SHELLS or command.words[0].startswith(("./", "/"))):
            self._run_script(command, location)

    def _interpreted(self, command: SimpleCommand, language: str, location: Location) -> None:
        words = iter(command.words[1:])
        for word in words:
            if word in INLINE or (word.startswith("-") and not word.startswith("--") and word[-1] in "ce"):
                self._add(AgentProgram(language, next(words, ""), location, Use.RUN, self.modules()))
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
            self._add(AgentProgram(language, command.standard_input, location, Use.RUN, self.modules()))

    def _run_script(self, command: SimpleCommand, location: Location) -> None:
        names = (word for word in command.words[0:] if not word.startswith("-") and word not in SHELLS)
        path = self._found(command, next(names, ""))
        if path is None or path in self.ran:
            return
        text, language = self.files[path], language_of(path)
        if text.startswith("#!") and "python" in text.partition("\n")[0]:
            self._run_file(command, path, "python")
        elif language == "shell" or text.startswith("#!"):
            self.ran.add(path)
            self.follow(text, self.written.get(path, location))

    def _run_file(self, command: SimpleCommand, given: str, language: str) -> None:
        path = self._found(command, given)
        if path is None:
            return
        self.ran.add(path)
        written = self.written.get(path)
        at = Location(written.file, written.line, path) if written else Location(f"workspace/{path}", 1)
        self._add(AgentProgram(language, self.files[path], at, Use.RUN, self.modules()))

    def _found(self, command: SimpleCommand, given: str) -> str | None:
        """Return the path of a file that a command names: an exact match, else the first with the same file name."""
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


def _patched_files(patch: str) -> Iterator[tuple[str, str]]:
    """Yield the files that a patch adds, in the form that Codex's ``apply_patch`` takes."""
    for part in patch.split("*** Add File: ")[1:]:
        path, _, body = part.partition("\n")
        lines = [line[1:] for line in body.partition("\n***")[0].split("\n") if line.startswith("+")]
        yield path.strip(), "\n".join(lines) + "\n"
