"""Reads a run's files for the viewer: bounded excerpts, episodes by name, and their films."""

import re
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evopolicygym.core import regular_file
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError, UsageError
from evopolicygym.core.film import Film
from evopolicygym.core.rollout import Episode, Failure
from evopolicygym.core.run import RunState
from evopolicygym.core.text import printable_lines
from evopolicygym.records.films import read_film
from evopolicygym.records.paths import FILM, RunPaths, film_name
from evopolicygym.records.post_hoc import PostHoc, read_post_hoc
from evopolicygym.records.reader import RunRecord

MOST_TEXT = 64 * 1024
"""Bytes of one text that a document holds; the rest is reported by its size, or comes by the page."""
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The beginning of a text."""

    text: str
    size: int
    """Bytes of the whole."""
    cut: bool


def within(root: Path, *names: str) -> Path | None:
    """Return what lies below a run's directory under plain names; None where it isn't there, or a link leads there."""
    path = root
    for name in names:
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            return None
        path /= name
        try:
            if stat.S_ISLNK(path.lstat().st_mode):
                return None
        except (OSError, ValueError):
            return None
    return path


def below(root: Path, path: Path) -> Path | None:
    """Return a path of ``RunPaths`` where no link leads to it, and it is there; else None."""
    return within(root, *path.relative_to(root).parts) if path.is_relative_to(root) else None


def read_bytes(path: Path | None, most: int, offset: int = 0) -> bytes | None:
    """Return at most so many bytes of a regular file; None of what is no such file, or can't be read."""
    if path is None:
        return None
    try:
        with regular_file.reader(path) as file:
            file.seek(offset)
            return file.read(most)
    except (OSError, RecordError):
        return None


def excerpt(path: Path | None, most: int = MOST_TEXT) -> Excerpt | None:
    """Return the beginning of a file as text that is safe to show; None where there is no such file."""
    content = read_bytes(path, most)
    if path is None or content is None:
        return None
    size = max(path.lstat().st_size, len(content))
    return Excerpt(shown(content), size, cut=size > len(content))


def shown(content: bytes | str) -> str:
    """Return a text without a terminal's colours, every other character that isn't printed spelled out."""
    text = content.decode("utf-8", "backslashreplace") if isinstance(content, bytes) else content
    return printable_lines(_ANSI.sub("", text.replace("\r\n", "\n")))


MOST_FILM = 1 << 30
"""Bytes of a film that is shown."""
DIGITS = 9
"""Most digits of a number in a name."""


@dataclass(frozen=True, slots=True)
class RecordedEpisode:
    """One episode of a run."""

    split: Split
    submission: int
    position: int
    """Among the submission's train episodes, or in its hidden split."""
    case: int
    checkpoint: str
    episode: Episode | None
    """None where it has not been played, or where no more than its return is known."""
    folder: Path
    """Directory of its files."""
    episode_return: float | None = None
    """Known after the score was, by ``post-hoc``, which writes down nothing but this and the next."""
    failure: Failure | None = None
    """Name of the episode for ``post-hoc``."""


def find_episode(record: RunRecord, name: str) -> RecordedEpisode:
    """Return an episode by its name; raise ``UsageError`` where there is none of it."""
    recorded = _located(record, name)
    if recorded.episode is not None or recorded.split is not Split.HELD_OUT:
        return recorded
    known = post_hoc_known(record.paths).get(recorded.checkpoint)
    if known is None or recorded.position >= len(known.returns):
        return recorded
    failure = known.failures.get(recorded.position)
    return replace(recorded, episode_return=known.returns[recorded.position], failure=failure)


def film_named(record: RunRecord, name: str) -> Path | None:
    """Return the film of an episode by its name, as ``film_file`` does."""
    return film_file(record, _located(record, name))


def _located(record: RunRecord, name: str) -> RecordedEpisode:
    state, paths = record.state, record.paths
    split, submission, position = _parsed(name)
    if split is Split.TRAIN and submission is not None:
        return _trained(state, paths, submission, position)
    if submission is None:
        if state.selected is None:
            raise UsageError("No checkpoint has been selected yet, so there is no hidden episode to look at.")
        submission = state.selected.submit_index
    return _hidden(state, paths, split, submission, position)


def film_file(record: RunRecord, recorded: RecordedEpisode) -> Path | None:
    """Return an episode's film where there is one, no link leads to it, and it is no larger than is shown.

    Somebody's comes before the agent's.
    """
    paths = record.paths
    made = paths.films / film_name(recorded.split, recorded.submission, recorded.checkpoint, recorded.position)
    agents = recorded.folder / FILM if recorded.split is Split.TRAIN else None
    candidates = (below(paths.root, item) for item in (made, agents) if item)
    return next((item for item in candidates if item and _is_film(item)), None)


def _is_film(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISREG(status.st_mode) and status.st_size <= MOST_FILM


def film_read(record: RunRecord, file: Path) -> Film | None:
    """Return what is shown of a film; None where that is not there, or can't be read."""
    return read_film(file, record.paths.root)


def film_shown(film: Film | None, recorded: RecordedEpisode) -> dict[str, Any]:
    """Return how a film's frames go with an episode's steps; only that there is one where that isn't known."""
    if film is None or film.shot.fps <= 0 or (recorded.episode and film.shot.length != recorded.episode.length):
        return {"frames": None}
    shot = film.shot
    return {
        "frames": shot.frames,
        "steps_per_frame": shot.steps_per_frame,
        "fps": shot.fps,
        "length": shot.length,
        "same": film.same,
        "doubt": shown(film.doubt),
    }


def post_hoc_known(paths: RunPaths) -> dict[str, PostHoc]:
    """Return what ``post-hoc`` had other checkpoints play of the held-out cases, by their names; nothing if nothing."""
    try:
        return read_post_hoc(paths) or {}
    except (OSError, RecordError):
        return {}


def _parsed(name: str) -> tuple[Split, int | None, int]:
    words = name.split("-")
    numbers = [int(word) for word in words[1:] if word.isascii() and word.isdigit() and len(word) <= DIGITS]
    whole = len(numbers) == len(words) - 1
    match words[0], numbers:
        case ("train" | "validation" | "held_out") as split, [submission, position] if whole:
            return Split(split), submission, position
        case ("validation" | "held_out") as split, [position] if whole:
            return Split(split), None, position
    raise UsageError(
        f"Invalid episode {name[:60]!r}: expected such as train-3-0, validation-0, held_out-0 or held_out-3-0."
    )


def _trained(state: RunState, paths: RunPaths, submission: int, position: int) -> RecordedEpisode:
    if submission >= len(state.submissions) or position >= len(state.submissions[submission].episodes):
        raise UsageError(f"There is no train episode {position} of a submission {submission} in this run.")
    one = state.submissions[submission]
    folder = paths.train_episode(submission, one.first_global_episode + position)
    case, checkpoint = one.charged.env_instances[position], one.charged.checkpoint
    return RecordedEpisode(Split.TRAIN, submission, position, case, checkpoint, one.episodes[position], folder)


def _hidden(state: RunState, paths: RunPaths, split: Split, submission: int, position: int) -> RecordedEpisode:
    if submission >= len(state.submissions):
        raise UsageError(f"There is no submission {submission} in this run; there are {len(state.submissions)}.")
    checkpoint = state.submissions[submission].charged.checkpoint
    episodes = state.rollout(split, checkpoint).episodes
    if position >= len(episodes):
        raise UsageError(f"There is no {split.value} case {position}; there are {len(episodes)}.")
    folder = paths.hidden_episode(split, checkpoint, position)
    return RecordedEpisode(split, submission, position, position, checkpoint, episodes[position], folder)
