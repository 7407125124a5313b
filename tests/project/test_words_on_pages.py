"""The pages' words: those that are not said to a reader, though a name in the code or a test may have them."""

import re
from functools import cache

import pytest

from page_blocks import PAGES
from places import ROOT

RETIRED_ON_PAGES = {
    "told": "shown, reported, passed, described",
    "tell": "show, distinguish",
    "tells": "shows, reports",
    "house": "package",
    "room": "package",
    "rooms": "packages, modules",
    "wing": "package",
    "wings": "packages",
    "mend": "fix",
    "mends": "fixes",
    "mended": "fixed",
    "workplace": "sandbox",
    "put aside": "ignored",
    "put down": "stopped",
    "taken up": "resumed",
    "goes on": "continues",
    "asked for": "requested",
    "held against": "compared with",
    "hold against": "compare with",
    "looked over": "checked",
    "comes along": "is included",
    "comes home": "is sent back",
    "leaves with": "exits with",
    "as ever": "as usual",
    "all the same": "anyway",
}
"""Words and phrases that pages don't say any more, with what is said instead."""
EXCEPTIONS = {
    "docs/measure/references.md": "MiniGrid's worlds have rooms",
    "docs/measure/frontier.md": "MiniGrid's worlds have rooms",
    "docs/measure/packs.md": "MiniGrid's worlds have rooms",
    "docs/reference/environments": "MiniGrid's worlds have rooms",
}
"""Pages on which these words may stand, with the reason."""
CODE = re.compile(r"^```.*?^```|`[^`]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
"""What a page holds besides its words: blocks, names in the code, and where links lead."""


@cache
def prose() -> dict[str, str]:
    """Return the words of each page, by its path from the root, each in the line in which it stands."""
    pages = {page: (ROOT / page).read_text(encoding="utf-8") for page in (*PAGES, "examples/README.md")}
    return {page: CODE.sub(lambda found: "`" + "\n" * found[0].count("\n"), text) for page, text in pages.items()}


def lines_that_say(word: str) -> list[str]:
    """Return where pages say a word: paths with lines."""
    phrase = r"\s+".join(map(re.escape, word.split()))
    pattern = re.compile(rf"(?<![\w/-]){phrase}(?![\w-])", re.IGNORECASE)
    return [
        f"{page}:{text[: match.start()].count(chr(10)) + 1}"
        for page, text in prose().items()
        for match in pattern.finditer(text)
    ]


@pytest.mark.parametrize("word", RETIRED_ON_PAGES)
def test_a_word_that_is_retired_on_pages_is_not_on_them(word: str) -> None:
    """Pages say a thing in the field's words; names in the code are marked as such."""
    found = [place for place in lines_that_say(word) if not place.startswith(tuple(EXCEPTIONS))]

    assert found == [], f"say {RETIRED_ON_PAGES[word]!r} instead of {word!r}"


@pytest.mark.parametrize("page", EXCEPTIONS)
def test_an_exception_for_a_page_is_needed(page: str) -> None:
    """Each page that may say such a word says one."""
    assert any(place.startswith(page) for word in RETIRED_ON_PAGES for place in lines_that_say(word))
