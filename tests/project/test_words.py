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
    "Run": "api.run.Run is a run as a program loads it, export.schema.tables.Run a run's four tables",
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
EXCEPTIONS = {
    "src/evopolicygym/references/": "policies that a person wrote; some are about doors and cars",
    "src/evopolicygym/environments/fast/minigrid.py": "MiniGrid's worlds have doors",
    "src/evopolicygym/specs/": "descriptions of environments that have doors",
    "src/evopolicygym/checks/attacks/": "hostile programs, in their own words",
    "docs/measure/references.md": "MiniGrid's worlds have doors",
    "docs/measure/results.md": "names environments",
    "docs/measure/leaderboard.md": "names the column told_apart by its heading",
    "docs/decisions/0003-shortcuts.md": "the name of the decision, which others link to",
    "src/evopolicygym/analysis/published/": "texts of records that were published",
    "src/evopolicygym/analysis/tables/contents.py": "told_apart is a column's key in tables that programs read",
    "docs/architecture.md": "has still to follow",
    "docs/reference/glossary.md": "has still to follow",
    "docs/reference/python.md": "has still to follow",
    "src/evopolicygym/api/": "has still to follow",
    "src/evopolicygym/core/option.py": "has still to follow",
    "src/evopolicygym/core/run_options.py": "has still to follow",
    "src/evopolicygym/analysis/ranking/comparability.py": "has still to follow",
}
"""Paths in which retired words may stand, with the reason."""
MOST_TOLD = 273
"""Lines with ``told``, in names and in prose; this number may only go down."""


@cache
def texts() -> dict[str, str]:
    """Return every text that a reader meets, by its path from the root."""
    suffixes = {".py", ".md", ".toml"}
    inside = [path for top in ("src", "docs") for path in (ROOT / top).rglob("*") if path.suffix in suffixes]
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in [*inside, ROOT / "README.md"]
    }


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


@pytest.mark.parametrize("word", RETIRED)
def test_a_retired_word_is_not_used(word: str) -> None:
    """The package, its documentation and the workspace's files say a thing by one word, and not by the one before."""
    phrase = r"\s+".join(map(re.escape, word.split()))
    pattern = re.compile(rf"(?<![\w/-]){phrase}(?![\w-])", re.IGNORECASE)
    found = [
        f"{path}:{text[: match.start()].count(chr(10)) + 1}"
        for path, text in texts().items()
        if not path.startswith(tuple(EXCEPTIONS))
        for match in pattern.finditer(text)
    ]

    assert found == [], f"say {RETIRED[word]!r} instead of {word!r}"


def test_told_is_said_less_and_less() -> None:
    """No new line says that something is told where it is shown, reported, passed or described."""
    count = sum(
        len(re.findall(r"\btold\b", text, re.IGNORECASE)) for path, text in texts().items() if path.endswith(".py")
    )

    assert count <= MOST_TOLD
