"""What an environment's own docstring says of it, as a terse text: read from the installed package, never kept by us.

Families write them in much the same way: sections with headings, tables or lists for elements and values. Sentences
that hold numbers or formulas are left out, as are links, code and drawings: what remains is said in words.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

HEADING = re.compile(r"^#{1,4}\s*(.+?)\s*#*\s*$", re.MULTILINE)
FENCED = re.compile(r"```.*?```|\$\$.*?\$\$|<[^>\n]+>|!\[[^\]]*\]\([^)]*\)", re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)|https?://\S*[^\s.,;)]")
FORMULA = re.compile(r"[=^\\|{}<>~$]|\d|\barXiv\b")
BARE = "="
"""Stands for a bare address, so that its sentence is left out."""
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"*`-])")
ITEM = re.compile(r"^\s*[-*]\s+`?(\d+)`?\s*[:=]\s*(.+?)\s*$", re.MULTILINE)
NAMED = len(("number", "name", "meaning"))
"""Columns of a table that has a meaning beside each name."""
MOST_SENTENCES, MOST_CHARACTERS = 6, 900
DESCRIPTION = ("description",)
REWARD = ("rewards", "reward", "reward function")
TERMINATION = ("episode end", "episode termination", "termination", "episode ends", "episode end and truncation")
ACTION = ("action space", "actions")
OBSERVATION = ("observation space", "observations", "observation encoding")


@dataclass(frozen=True, slots=True)
class DocstringText:
    """What a docstring says, in words; empty where it says nothing that can be said so."""

    objective: str
    reward: str
    termination: str
    observations: tuple[str, ...]
    """Names of the elements of an observation, in order."""
    actions: tuple[str, ...]
    """Names of the elements or values of an action, in order."""


def read(docstring: str) -> DocstringText:
    """Return what a docstring says."""
    sections = dict(_sections(docstring))
    return DocstringText(
        objective=_words(_first(sections, DESCRIPTION) or sections.get("", "")),
        reward=_words(_first(sections, REWARD)),
        termination=_words(_first(sections, TERMINATION)),
        observations=_names(_first(sections, OBSERVATION)),
        actions=_names(_first(sections, ACTION)),
    )


def _sections(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield each section's heading, in small letters, with its text; what stands before the first has no heading."""
    parts = HEADING.split(FENCED.sub("", docstring))
    yield "", parts[0]
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        yield heading.lower().strip("*: "), text


def _first(sections: Mapping[str, str], headings: tuple[str, ...]) -> str:
    return next((sections[one] for one in headings if one in sections), "")


def _words(text: str) -> str:
    """Return the first sentences of a text that say something in words."""
    plain = LINK.sub(lambda found: BARE if found[1] is None else found[1], re.sub(r"[*`\"]", "", text))
    kept: list[str] = []
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)", plain):
        sentences = SENTENCE.split(re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "", " ".join(paragraph.split())))
        kept += [one for one in sentences if one.endswith((".", "!")) and not FORMULA.search(one)]
    found = ""
    for sentence in kept[:MOST_SENTENCES]:
        if len(found) + len(sentence) < MOST_CHARACTERS:
            found = f"{found} {sentence}".strip()
    return found


def _names(text: str) -> tuple[str, ...]:
    """Return the names that a table or a list of numbered items gives, where they are numbered from 0 without a gap."""
    cells = (line.strip().strip("|").split("|") for line in text.splitlines() if line.count("|") > 1)
    rows = ([cell.replace("`", "").strip(" *") for cell in row] for row in cells)
    numbered = [(row[0], row[-1] if len(row) == NAMED else row[1]) for row in rows if row[0].isdigit()]
    numbered = numbered or [(found[1], found[2]) for found in ITEM.finditer(text)]
    places = [int(place) for place, _ in numbered]
    return tuple(name for _, name in numbered) if places == list(range(len(places))) else ()
