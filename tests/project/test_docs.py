"""The docs list what the code has."""

import re
from functools import cache
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from evopolicygym.cli.main import app
from evopolicygym.specs import catalog
from places import ROOT

PROGRAM = get_command(app)
VERBS = sorted(PROGRAM.commands)  # type: ignore[attr-defined]
COMMAND = re.compile(
    rf"(?:^|`)(?:\w+=\S+ )?evopolicygym ({'|'.join(VERBS)})\b([^`#\n]*(?:\n[^`#\n]*(?=`))?)", re.MULTILINE
)
"""A command on a line of its own, or in a sentence, where it may go on in the next line."""
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@cache
def docs() -> dict[Path, str]:
    """Return every page, by its path."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {page: page.read_text(encoding="utf-8") for page in pages}


def options(verb: str) -> list[str]:
    """Return the long options of a verb and of what stands below it, its help aside."""
    command = PROGRAM.commands[verb]  # type: ignore[attr-defined]
    found = [command, *getattr(command, "commands", {}).values()]
    return [name for part in found for one in part.params for name in one.opts if name.startswith("--")]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_told(verb: str) -> None:
    """Each verb of the command line stands in the docs."""
    assert any(f"evopolicygym {verb}" in text for text in docs().values())


@pytest.mark.parametrize(("verb", "option"), [(verb, option) for verb in VERBS for option in options(verb)])
def test_every_option_is_told(verb: str, option: str) -> None:
    """Each option of the command line stands in the docs, on a page that tells of its verb."""
    pages = [text for text in docs().values() if f"evopolicygym {verb}" in text]

    assert any(re.search(rf"{option}\b", text) for text in pages)


@pytest.mark.parametrize("page", sorted(docs()), ids=lambda page: page.stem)
def test_what_stands_behind_plus_and_minus_is_said(page: Path) -> None:
    """The header of each table with numbers behind ± says that they are standard errors, or the title above it does."""
    tables = re.findall(r"(?:^\*\*.*\*\*\n\n)?(?:^\|.*\n)+", docs()[page], re.MULTILINE)
    heads = {one: one.partition("\n| ---")[0].partition("\n|---")[0] for one in tables if re.search(r"\d ± \d", one)}

    assert [head for head in heads.values() if "± s.e." not in head] == []


@pytest.mark.parametrize("name", catalog.names())
def test_every_environment_is_told(name: str) -> None:
    """Each environment stands in docs/reference/environments.md, with the id that gymnasium knows it by."""
    text = docs()[ROOT / "docs" / "reference" / "environments.md"]

    assert re.search(rf"`?{name}`? ", text)
    assert catalog.load(name).id in text


def test_every_attack_is_held_by_a_test() -> None:
    """Each attack and fault has a row of its own in docs/reference/security.md, which names tests that there are."""
    text = docs()[ROOT / "docs" / "reference" / "security.md"]
    found = re.findall(r"^\| ([A-Z]\d\d) (\|.*)$", text, re.MULTILINE)
    rows = dict(found)
    named = {case: re.findall(r"`(tests/[\w/]+\.py)::(\w+)", row) for case, row in rows.items()}
    missing = [
        (case, file, test)
        for case, tests in named.items()
        for file, test in tests
        if f"def {test}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]

    assert len(rows) == len(found) > 70
    assert [case for case, tests in named.items() if not tests] == []
    assert missing == []


def test_no_link_leads_nowhere() -> None:
    """Each link of a page to a file of ours finds it."""
    links = [(page, link) for page, text in docs().items() for link in LINK.findall(text)]

    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_every_example_of_a_verb_can_be_read() -> None:
    """Each command that a page names, also within a sentence, has a verb and options that there are."""
    commands = [(page.name, *found) for page, text in docs().items() for found in COMMAND.findall(text)]
    wrong = [
        (page, verb, option)
        for page, verb, rest in commands
        for option in re.findall(r"(?<![^\s[])--[a-z][a-z-]*", rest.partition(" -- ")[0])
        if option not in options(verb)
    ]

    assert len(commands) > 100
    assert wrong == []


def test_the_program_is_typers() -> None:
    """What is looked at above is the program itself."""
    assert isinstance(app, typer.Typer)
