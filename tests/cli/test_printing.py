"""What the program prints: texts of records as text, whatever a terminal would make of them."""

import json
import re

import pytest
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from evopolicygym.cli.output import err, out, print_error, print_json, print_text
from hostile_records import ESCAPES

RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def test_a_console_prints_no_escape(capsys: pytest.CaptureFixture[str]) -> None:
    """Escapes, control characters and direction marks are spelled out, in tables and panels too."""
    table = Table()
    table.add_column(Text(ESCAPES))
    table.add_row(Text(ESCAPES))
    for one in (Text(ESCAPES), table, Panel(Text(ESCAPES))):
        out().print(one)
    err().print(Text(ESCAPES))
    print_error(ESCAPES)
    print_text(ESCAPES)
    printed = capsys.readouterr()

    assert RAW.findall(printed.out + printed.err) == []
    assert r"\x1b[31m" in printed.out


def test_json_is_the_same_value_without_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    """What a terminal would act on is escaped in JSON, and read back as it was."""
    value = {ESCAPES: [ESCAPES, "grün", 1]}
    print_json(value)
    printed = capsys.readouterr().out

    assert RAW.findall(printed) == []
    assert "grün" in printed
    assert json.loads(printed) == value
