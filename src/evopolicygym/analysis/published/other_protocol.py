"""Figures that others published under a protocol of their own: shown beside ours, with how the protocol differs.

A file of ``data/other_protocol/`` is such a set, and its name is the file's. They are no entries: nothing ranks them,
normalises by them or pairs them with a run. Tables that may be ranked are described in ``score_tables.py``.
"""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from evopolicygym.core.decoding import decoder
from evopolicygym.core.errors import UnknownName
from evopolicygym.core.options import RUN_OPTIONS

OURS = {one.name: one.default for one in RUN_OPTIONS if one.name in {"budget", "validation", "held_out"}}
"""What our protocol has by default, which is the paper's."""
HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class OtherProtocol:
    """What is known of how figures were made; None where it was not said, or not limited."""

    budget: int
    """Train episodes of a run."""
    held_out: int
    """Episodes that score it."""
    validation: int | None = None
    """Episodes of each candidate by which the best is selected."""
    max_episodes: int | None = None
    """The most of one submission."""
    max_submissions: int | None = None
    agent_s: int | None = None
    """The most seconds of the agent."""
    details: str = ""
    """What was said besides."""

    @property
    def differences(self) -> tuple[str, ...]:
        """In what it is another protocol than ours, in a few words each."""
        return tuple(self._differences())

    def _differences(self) -> Iterator[str]:
        if self.budget != OURS["budget"]:
            yield f"{self.budget} train episodes (ours {OURS['budget']})"
        if self.validation is None:
            yield f"validation not stated (ours {OURS['validation']})"
        elif self.validation != OURS["validation"]:
            yield f"{self.validation} validation (ours {OURS['validation']})"
        if self.held_out != OURS["held_out"]:
            yield f"{self.held_out} held-out (ours {OURS['held_out']})"
        if self.max_episodes is not None and self.max_episodes < self.budget:
            yield f"at most {self.max_episodes} episodes a submission"
        if self.max_submissions is not None and self.max_submissions < self.budget:
            yield f"at most {self.max_submissions} submissions"
        if self.agent_s is not None:
            yield f"at most {self.agent_s / HOUR_S:g} h"
        if self.details:
            yield self.details


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """One entry's mean on one task."""

    entry: str
    score: float
    """Mean over held-out episodes; its standard error was not published."""
    effort: str = ""

    @property
    def label(self) -> str:
        """The entry with its reasoning effort."""
        return f"{self.entry}, {self.effort}" if self.effort else self.entry


@dataclass(frozen=True, slots=True)
class FiguresOfTask:
    """What was published of one task."""

    suite: str
    name: str
    """As its publisher calls it."""
    metric: str
    protocol: OtherProtocol
    figures: tuple[PublishedFigure, ...]
    id: str = ""
    """What gymnasium registers it as, as far as its name says it; the limit on its steps may be another than ours."""

    @property
    def best(self) -> PublishedFigure:
        """The entry with the highest mean."""
        return max(self.figures, key=lambda one: one.score)


@dataclass(frozen=True, slots=True)
class OtherFigures:
    """Figures of one source."""

    source: str
    date: str
    version: str
    """Of the source, such as a commit."""
    tasks: tuple[FiguresOfTask, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know of them."""
        return (self._how_made, "Published without standard errors: how far another run would differ is not known.")

    @property
    def _how_made(self) -> str:
        return (
            f"Published elsewhere ({self.source}, {self.date}), under other protocols than ours, with texts and "
            "versions of their own: these figures are never ranked, nor are scores normalised by them."
        )

    def of_game(self, gymnasium_id: str) -> FiguresOfTask | None:
        """Return what was published of an environment; None where nothing was."""
        return next((one for one in self.tasks if one.id and one.id == gymnasium_id), None)

    def narrowed(self, gymnasium_ids: Iterable[str]) -> "OtherFigures":
        """Return the figures of some environments alone."""
        wanted = set(gymnasium_ids)
        kept = tuple(one for one in self.tasks if one.id and one.id in wanted)
        return OtherFigures(self.source, self.date, self.version, kept)


def other_names() -> list[str]:
    """Return the names of all sets of figures."""
    return sorted(_files())


@cache
def other_figures(name: str) -> OtherFigures:
    """Return the figures of a name; raise ``UnknownName`` where there are none."""
    if name not in (found := _files()):
        raise UnknownName("set of published figures", name, found)
    return decoder(OtherFigures).value(tomllib.loads(found[name].read_text(encoding="utf-8")))


def _files() -> dict[str, Traversable]:
    data = files("evopolicygym.analysis.published") / "data" / "other_protocol"
    return {Path(file.name).stem: file for file in data.iterdir() if file.name.endswith(".toml")}
