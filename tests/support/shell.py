"""The program, as one types it."""

import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from evopolicygym.cli import main as cli

ESCAPE = "\x1b"


@dataclass(frozen=True, slots=True)
class Left:
    """How the program left."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Shell:
    """Types commands."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: object) -> Left:
        self.monkeypatch.setattr(sys, "argv", ["evopolicygym", *map(str, arguments)])
        code: Any = 0
        try:
            cli.main()
        except SystemExit as leaving:
            code = leaving.code or 0
        captured = self.capsys.readouterr()
        return Left(code, captured.out, captured.err)

    def printed(self, *arguments: object) -> str:
        """Return what a command printed on stdout; it must leave with 0."""
        left = self(*arguments)
        assert left.code == 0, left.err
        return left.out

    def json(self, *arguments: object) -> Any:
        """Return what a command printed, all of which must be one JSON value."""
        left = self(*arguments, "--json")
        assert left.code == 0, left.err
        assert left.err == ""
        return json.loads(left.out)
