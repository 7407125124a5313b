"""A newcomer who has a checkout, a home with nothing in it and a model, and types what a page says.

What is on a page is told in ``page_blocks.py``, and how one types in ``terminal.py``.
"""

import os
import re
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from evopolicygym.agents.kit.scripted_model.conversation import Say, Script, Shell
from evopolicygym.agents.kit.scripted_model.server import ScriptedModel
from page_blocks import ROOT, Block, Command
from scripted_tools import PROGRAM
from terminal import Ended, Running, Terminal

KEY = "sk-scripted"
HERE = (
    ".venv", "benchmarks", "constraints.txt", "docs", "Makefile", "pyproject.toml", "README.md", "results", "src",
    "tests",
)  # fmt: skip
"""What a checkout holds; everything else in it is made on the way."""
TOKEN = re.compile(r":(\d+)/\?token=([\w-]+)")


@dataclass(frozen=True, slots=True)
class Rule:
    """What is done otherwise with a command that can't be run as it stands."""

    command: str
    """Which it is; ``*`` stands for anything."""
    why: str
    run: bool = True
    options: str = ""
    """What is added to it; of an option that is given twice, the last counts."""
    needs: str = ""
    """The module that must be installed."""
    until: str = ""
    """What it prints once it does what it is for: it goes on beside the others, until Ctrl-C at the page's end."""
    codes: tuple[int, ...] = (0,)
    """The exit codes that are as the page says."""

    def holds_for(self, command: Command) -> bool:
        """Return whether it is meant for a command."""
        return re.fullmatch(".*".join(map(re.escape, self.command.split("*"))), command.text) is not None

    @property
    def missing(self) -> bool:
        """Whether what it needs isn't installed."""
        return bool(self.needs) and find_spec(self.needs) is None


class Reader:
    """Types a page's commands. A model that it asks has an agent submit twice; its ``codex`` submits by itself."""

    def __init__(self, directory: Path, words: Mapping[str, str]) -> None:
        """Begin below a directory that is empty; ``words`` are what this page's words in capitals stand for."""
        self.work, self._notes = directory / "evopolicygym", directory / "notes"
        self._words = dict(words)
        self._running: list[tuple[Command, Running, set[int]]] = []
        home, programs = directory / "home", directory / "bin"
        for made in (self.work, self._notes, home, programs):
            made.mkdir()
        for name in HERE:
            (self.work / name).symlink_to(sys.prefix if name == ".venv" else ROOT / name)
        codex = programs / "codex"
        codex.write_text(f"{PROGRAM}submit()\n", encoding="utf-8")
        codex.chmod(0o755)
        ours = [place for place in os.environ["PATH"].split(os.pathsep) if Path(place) != Path(sys.prefix, "bin")]
        self._environment = {name: value for name, value in os.environ.items() if name.startswith(("RAY_", "TMP"))}
        self._environment |= {"HOME": str(home), "PATH": os.pathsep.join([str(programs), *ours]), "LANG": "C.UTF-8"}
        self._environment |= {"BROWSER": "true", "MODEL_KEY": KEY}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            steps = [Shell("./judge submit 0-1"), Shell("./judge submit 2-3"), *map(Say, ("One.", "Two.", "Three."))]
            self._model = stack.enter_context(ScriptedModel(Script(steps)))
            self._terminal = stack.enter_context(Terminal(self.work, self._notes, self._environment))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write(self, block: Block) -> None:
        """Write a file that a page shows."""
        (self.work / block.file).write_text(block.text, encoding="utf-8")

    def prepare(self, text: str) -> None:
        """Run what a reader has done before; it must work."""
        ended = self._terminal.type(text)
        assert ended.code == 0, f"{text} left with {ended.code}:\n{ended.printed}"

    def run(self, command: Command, rules: list[Rule]) -> None:
        """Run a command by its rules; it must leave as the page says."""
        typed = self.typed(command, rules)
        until, codes = "".join(rule.until for rule in rules), {code for rule in rules for code in rule.codes}
        if until:
            self._running.append((command, self._terminal.start(typed, until), codes))
        else:
            self._check(command, typed, self._terminal.type(typed), codes)

    def leave(self) -> None:
        """Press Ctrl-C on what still goes on; each must leave in good order."""
        for command, running, codes in self._running:
            self._check(command, command.text, self._terminal.interrupt(running), codes)

    def typed(self, command: Command, rules: list[Rule]) -> str:
        """Return what is typed for a command: its words replaced, and options added that rules say."""
        if command.program:
            file = self._notes / f"{command.line}.py"
            file.write_text(command.program, encoding="utf-8")
            return f"python - <'{file}'"
        text = command.text
        for options in (rule.options for rule in rules if rule.options):
            text = re.sub(r"(?= -- | > |$)", lambda _, more=options: f" {more}", text, count=1)
        for words in (self._words, self._found()):
            for word, value in words.items():
                text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", lambda _, value=value: value, text)
        return text

    def _found(self) -> dict[str, str]:
        """Return what words stand for by now, on any page."""
        found = {"URL": f"{self._model.url}/v1", "https://api.openai.com/v1": f"{self._model.url}/v1", "…": KEY}
        journals = sorted(self.work.glob("runs/*/*/*/*/journal.jsonl"), key=lambda path: -path.stat().st_mtime_ns)
        runs = [str(path.parent.relative_to(self.work)) for path in journals]
        if runs:
            found |= {"RUN": runs[0], "RUN_B": runs[0], "RUN_A": runs[min(1, len(runs) - 1)]}
        for _, running, _ in self._running:
            for viewer in TOKEN.findall(running.printed()):
                found |= dict(zip(("PORT", "TOKEN"), viewer, strict=True))
        return found

    @staticmethod
    def _check(command: Command, typed: str, ended: Ended, codes: set[int]) -> None:
        assert ended.code in (codes or {0}), (
            f"{command.place}: {command.text}\nrun as: {typed}\nleft with {ended.code}, and printed:\n{ended.printed}"
        )
