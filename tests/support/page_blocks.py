"""What stands in fences on a page of the docs: commands, programs, files, and what something prints."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")))
PAGES += ("results/README.md",)
LANGUAGES = ("json", "mermaid", "python", "sh", "text", "toml", "yaml")
"""The languages of fences: ``sh`` holds commands, one a line; ``text`` holds what is not typed."""
FENCE = re.compile(r"^\s*```(.*)$")
FILE = re.compile(r"`(\w+\.(?:py|toml))`")
"""How a paragraph names the file that the block below it is."""
COMMENT = re.compile(r"(^|\s+)#\s.*$")


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between two fences."""

    page: str
    line: int
    """The number of its first line on the page."""
    language: str
    text: str
    file: str
    """The file that it is, as the paragraph before it says; empty where that names none."""


@dataclass(frozen=True, slots=True)
class Command:
    """What a reader types, or a program that they run."""

    page: str
    line: int
    text: str
    """Without the comment behind it; of a program its first line."""
    program: str = ""
    """The Python program, where it is one."""

    @property
    def place(self) -> str:
        """Where it stands, as editors read it."""
        return f"{self.page}:{self.line}"


def blocks(page: str) -> Iterator[Block]:
    """Yield what stands in fences on a page, in its order."""
    language, begun, inside, paragraph, ended = "", 0, list[str](), list[str](), False
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if fence and begun:
            named = FILE.search("\n".join(paragraph))
            yield Block(page, begun, language, "\n".join([*inside, ""]), named[1] if named else "")
            begun, paragraph = 0, []
        elif fence:
            language, begun, inside = fence[1], number + 1, []
        elif begun:
            inside.append(line)
        elif line.strip():
            paragraph = [line] if ended else [*paragraph, line]
        ended = not begun and not line.strip()
    assert not begun, f"{page}:{begun}: a fence that is never closed"


def commands(block: Block) -> Iterator[Command]:
    """Yield what is to be run of a block, each command a line; one that ends in a backslash goes on in the next."""
    if block.language == "python" and not block.file:
        yield Command(block.page, block.line, block.text.strip().splitlines()[0], block.text)
    if block.language != "sh":
        return
    begun, number = "", block.line
    for place, line in enumerate(block.text.splitlines(), block.line):
        number = number if begun else place
        begun += line
        if begun.endswith("\\"):
            begun = begun[:-1]
            continue
        if text := COMMENT.sub("", begun).strip():
            yield Command(block.page, number, text)
        begun = ""
