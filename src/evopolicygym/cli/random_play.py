"""Whether a score is that of random play, which a number alone doesn't show."""

from math import hypot

from evopolicygym.core.number_text import plus_minus
from evopolicygym.core.run import RunState
from evopolicygym.runs.workspace import starter

NOISE = 2.0
"""Standard errors of their difference within which a score is not distinguished from the random anchor."""


def random_play(state: RunState) -> str:
    """Return in a sentence why a run's score is that of random play; empty where it isn't, or there is none."""
    held_out, selected = state.held_out(), state.selected
    if held_out is None or selected is None:
        return ""
    if selected.checkpoint == starter():
        return "this score is that of random play: the selected policy is the starter, which acts at random"
    anchor = state.opened.task.environment.random_anchor
    if anchor is None or held_out.standard_error is None:
        return ""
    noise = NOISE * hypot(held_out.standard_error, anchor.standard_error)
    if not abs(held_out.mean - anchor.mean) <= noise:
        return ""
    of_random = plus_minus(anchor.mean, anchor.standard_error)
    return f"this score is within {NOISE:g} standard errors of that of random play, {of_random}"
