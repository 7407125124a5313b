"""The package's words: one class one name, and none of the words that were retired for the field's own."""

import ast
import re
from collections import defaultdict
from functools import cache

import pytest

from places import ROOT

SOURCE = ROOT / "src" / "evopolicygym"
SHARED_NAMES = {
    "Backend": "the plug-in contract's own name in every file of sandbox/backends",
    "Exporter": "the plug-in contract's own name in every file of export/formats",
    "Policy": "what every policy project has to define",
    "Stage": "a reference policy is a project of its own",
}
"""Names of more than one class, with the reason."""
RETIRED = {
    "siege": "attack suite",
    "bait": "decoys",
    "survivors": "leftover processes",
    "parcel": "archive",
    "likeness": "node compatibility",
    "mortal": "crash isolation",
    "passage": "exchange",
    "gate": "proxy, endpoint",
    "door": "proxy to a model, endpoint of the judge",
    "doors": "proxies, endpoints",
    "referee": "judge client",
    "desk": "workspace",
    "shelf": "run index",
    "shortcuts": "fast simulators",
    "shortcut": "fast simulator",
    "stranger": "untrusted code",
    "strangers": "untrusted code",
    "stranger's": "untrusted",
    "when that is mended": "once fixed",
    "asked for what can't be done": "invalid request",
    "taken up again": "resumed",
    "run is put down": "run is stopped",
    "run was put down": "run was stopped",
    "goes on where it stopped": "continues",
    "can be had": "available, must be 1-64",
    "could be had": "could be read",
    "can't be so": "invalid",
    "is no integer that can be read": "expected an int, got",
    "not in its workplace": "not found in the sandbox",
    "measured alike": "comparable",
    "mixed all the same": "mix anyway",
    "how often each agent plays": "repeats",
    "leaves with 1": "exits with 1",
    "wins over it": "overrides",
    "can be told besides": "extra options",
    "is to think": "reasoning effort",
    "where nobody looks": "when piped",
    "rules of this desk": "workspace rules",
    "is well where": "passes if",
    "reckoned": "calculated",
    "told apart": "distinguished",
}
"""Words and phrases that are not used any more, with what is said instead."""
TOLD = re.compile(r"(?<![a-z])told(?![a-z])", re.IGNORECASE)
"""A word that is not said in the package any more, in names neither."""
EXCEPTIONS = {
    "src/evopolicygym/references/": "policies that a person wrote; some are about doors and cars",
    "src/evopolicygym/specs/": "texts that agents were shown, whose hash stands in records; some are about doors",
    "src/evopolicygym/checks/attacks/": "hostile programs, in their own words",
    "docs/measure/references.md": "MiniGrid's worlds have doors",
    "docs/measure/frontier.md": "MiniGrid's worlds have doors",
    "docs/measure/packs.md": "names environments",
    "docs/measure/examples.md": "quotes what an agent expected, some of it about doors",
    "docs/measure/results.md": "names environments",
    "src/evopolicygym/analysis/tables/contents.py": "told_apart is a column's key in tables that programs read",
}
"""Paths in which retired words may stand, with the reason."""


@cache
def texts() -> dict[str, str]:
    """Return every text that a reader meets, by its path from the root."""
    suffixes = {".py", ".md", ".toml"}
    inside = [path for top in ("src", "docs") for path in (ROOT / top).rglob("*") if path.suffix in suffixes]
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in [*inside, ROOT / "README.md"]
    }


def pattern_of(word: str) -> re.Pattern[str]:
    """Return what finds a word or phrase in prose, also where it goes on in the next line."""
    phrase = r"\s+".join(map(re.escape, word.split()))
    return re.compile(rf"(?<![\w/-]){phrase}(?![\w-])", re.IGNORECASE)


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    """Return where a pattern is found that may not be found there: paths with lines."""
    return [
        f"{path}:{text[: match.start()].count(chr(10)) + 1}"
        for path, text in texts().items()
        if not path.startswith(tuple(EXCEPTIONS))
        for match in pattern.finditer(text)
    ]


def classes() -> dict[str, list[str]]:
    """Return the files that define a class, by the class's name."""
    found = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(SOURCE).as_posix())
    return found


def test_two_classes_never_share_a_name() -> None:
    """Who searches for a class by its name finds one."""
    shared = {name: files for name, files in classes().items() if len(files) > 1 and name not in SHARED_NAMES}

    assert shared == {}


@pytest.mark.parametrize("path", EXCEPTIONS)
def test_an_exception_is_needed(path: str) -> None:
    """Each path in which retired words may stand has one of them."""
    inside = [text for name, text in texts().items() if name.startswith(path)]

    assert any(pattern.search(text) for pattern in (TOLD, *map(pattern_of, RETIRED)) for text in inside)


@pytest.mark.parametrize("word", RETIRED)
def test_a_retired_word_is_not_used(word: str) -> None:
    """The package, its documentation and the workspace's files say a thing by one word, and not by the one before."""
    found = lines_with(pattern_of(word))

    assert found == [], f"say {RETIRED[word]!r} instead of {word!r}"


def test_nothing_is_told() -> None:
    """The package says that a thing is shown, reported, passed or described; no name or sentence of it says told."""
    found = [place for place in lines_with(TOLD) if place.startswith("src/")]

    assert found == [], "say 'shown', 'reported', 'passed', 'described', 'known' or 'given' instead of 'told'"
