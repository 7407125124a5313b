"""Films of one case by several runs, to be looked at side by side."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evopolicygym.core.cases import Split
from evopolicygym.records.reader import RunRecord
from evopolicygym.viewer.documents.episode_names import film_file, film_read, film_shown, found
from evopolicygym.viewer.documents.hidden import hidden_bundle

MOST_CASES = 100
"""Cases whose films a document tells of."""
ORDER = {Split.HELD_OUT: 0, Split.VALIDATION: 1, Split.TRAIN: 2}


def films_bundle(runs: Iterable[tuple[Mapping[str, Any], RunRecord]]) -> list[dict[str, Any]]:
    """Return the cases of which two runs or more have a film, held-out ones first; each run has one of each case.

    ``runs`` are records with what is shown of them in short. Runs play the same case where they committed to the same
    cases.
    """
    cases: dict[tuple[str, Split, int], list[dict[str, Any]]] = defaultdict(list)
    for short, record in runs:
        for (split, case), name in _films(record):
            place = found(record, name)
            file = film_file(record, place)
            cases[short["commitment"], split, case].append({
                "run": short["id"],
                "entry": short["entry"],
                "seed": short["seed"],
                "submission": place.submission,
                "name": name,
                "return": place.episode.episode_return if place.episode else place.episode_return,
                "film": film_shown(film_read(record, file) if file else None, place),
            })  # fmt: skip
    several = [(split, case, films) for (_, split, case), films in cases.items() if films[1:]]
    several.sort(key=lambda one: (ORDER[one[0]], one[1]))
    return [{"split": split.value, "case": case, "films": films} for split, case, films in several[:MOST_CASES]]


def _films(record: RunRecord) -> Iterator[tuple[tuple[Split, int], str]]:
    """Yield each case of which a run has a film, and the film's name: of the selected checkpoint, else the latest."""
    state = record.state
    chosen: dict[tuple[Split, int], str] = {}
    selected = [state.submissions[state.selected.submit_index]] if state.selected else []
    for one in (*state.submissions, *selected):
        for name in hidden_bundle(record, one)["films"]:
            place = found(record, name)
            chosen[place.split, place.case] = name
    yield from chosen.items()
