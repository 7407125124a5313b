"""The glossary: our terms, a sentence each."""

import re

import pytest

from places import ROOT

GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
TERMS = dict(re.findall(r"^- \*\*(.+)\*\*: (.+)$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE))
PLACES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
USED = " ".join(" ".join(path.read_text(encoding="utf-8") for path in PLACES if path != GLOSSARY).lower().split())
MOST_WORDS = 40


def test_terms_are_in_alphabetical_order() -> None:
    """A reader finds a term by its first letters, and each stands once."""
    lines = re.findall(r"^- .*$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)

    assert list(TERMS) == sorted(TERMS)
    assert len(lines) == len(TERMS) > 50


@pytest.mark.parametrize("term", TERMS)
def test_a_term_is_explained_in_one_sentence(term: str) -> None:
    """Each explanation is one sentence of at most forty words."""
    sentence = TERMS[term]

    assert re.search(r"[.!?] [A-Z]", sentence) is None
    assert sentence.endswith(".")
    assert len(sentence.split()) <= MOST_WORDS


@pytest.mark.parametrize("term", TERMS)
def test_a_term_is_one_that_is_used(term: str) -> None:
    """Each term stands in the docs or in the code."""
    assert re.search(rf"(?<!\w){re.escape(term)}(?!\w)", USED.replace("_", " "))
