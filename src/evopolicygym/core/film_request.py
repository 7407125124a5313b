"""Which episodes of a submission an agent may have filmed, and how it asks for that.

How films are made is described in ``rollout/films/camera.py``; what becomes of them, in ``judge/films.py``.
"""

from collections.abc import Sequence

from evopolicygym.core.errors import RefusalStatus, RequestRefused
from evopolicygym.core.submission import Indices

FILMS_A_SUBMISSION = 4
"""The most films of one submission: who asked waits while they are made."""


def parse_films(asked: object, env_instances: Sequence[int], n_cases: int, allowed: int, left: int) -> tuple[int, ...]:
    """Return the places in ``env_instances`` of the episodes to be filmed; raise ``RequestRefused``.

    ``asked`` names some of the submission's train cases, as ``env_instances`` does; None and an empty list name none.
    A case that is submitted several times is filmed at its first place: all its episodes are the same. ``allowed`` is
    how many films the run allows, ``left`` how many of them are left.
    """
    if asked is None or asked == []:
        return ()
    if not allowed:
        raise RequestRefused(
            RefusalStatus.INVALID_REQUEST, "films: this run makes no films for its agent; leave the field out."
        )
    words = Indices("films", n_cases, FILMS_A_SUBMISSION, "films were asked for; one submission may have")
    cases = words.read(asked)
    for place, case in enumerate(cases):
        if case in cases[:place]:
            raise words.refused(f"index {case} is named twice; a case has one film")
        if case not in env_instances:
            raise words.refused(f"index {case} is not among the submission's env_instances")
    if len(cases) > left:
        raise RequestRefused(
            RefusalStatus.BUDGET_INVALID,
            f"{len(cases)} films were asked for, but of the run's {allowed} only {left} are left.",
        )
    return tuple(env_instances.index(case) for case in cases)


def fits(places: Sequence[int], episodes: int, left: int) -> bool:
    """Return whether the places of films are what ``parse_films`` may have returned."""
    known = all(0 <= place < episodes for place in places)
    return known and len(set(places)) == len(places) <= min(left, FILMS_A_SUBMISSION)
