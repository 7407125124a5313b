"""Scores that others have published, shipped as data with their source."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class PublishedEntry:
    """One row of a published table."""

    name: str
    kind: str
    """``agent``, or ``anchor`` for a policy that needs no thought."""
    scores: dict[str, float]
    """Mean held-out return by environment."""


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of scores."""

    source: str
    cases: int
    """Held-out cases behind each mean."""
    entries: tuple[PublishedEntry, ...]

    def scores(self, environment: str) -> dict[str, float]:
        """Return every entry's score on one environment, by the entry's name; empty where it was not played."""
        return {one.name: one.scores[environment] for one in self.entries if environment in one.scores}


@cache
def paper() -> PublishedTable:
    """Return the paper's table: four agents and uniform random on Core16."""
    text = (files("evopolicygym.analysis") / "data" / "paper.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    entries = (PublishedEntry(one["name"], one["kind"], one["scores"]) for one in document["entries"])
    return PublishedTable(document["source"], document["cases"], tuple(entries))
