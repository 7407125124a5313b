"""What an agent reads of its submissions in a training session: returns, errors, outputs and steps of an episode."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from evopolicygym.core import regular_file
from evopolicygym.core.run import RunState, Stage, SubmissionState
from evopolicygym.core.spaces import from_schema
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.text import number
from evopolicygym.records.trajectories import Step, read_steps

MOST_PRINTED = 1 << 20
"""The largest file of an output that is read."""
SHOWN_RETURNS, SHOWN_STEPS, SHOWN_OUTPUT, SHOWN_VALUE = 4, 8, 600, 240
"""Returns of a submission and steps of an episode that are shown, and most characters of an output and of a value."""


def describe_submissions(state: RunState, trace_of: Callable[[int], Path], step: int) -> str:
    """Return lines on each submission, and on the latest one's first episode from ``step`` on.

    ``trace_of`` returns the directory of a submission's first episode.
    """
    lines = [_line(each) for each in state.submissions]
    if state.submissions and (latest := state.submissions[-1]).published:
        lines += _details(state, latest, trace_of(latest.index), step)
    left = f"{state.remaining} of {state.budget} episodes left."
    is_over = state.stage is Stage.FINISHED
    end = "" if state.takes_submissions else " The session is over." if is_over else " Scoring."
    return "\n".join([*lines, left + end])


def _line(submission: SubmissionState) -> str:
    name = f"submission {submission.index}"
    if submission.published is None:
        return f"{name}: playing, {len(submission.returns)} of {len(submission.episodes)} episodes"
    if submission.load_error:
        return f"{name}: {submission.load_error}"
    returns = ", ".join(map(number, submission.returns[:SHOWN_RETURNS]))
    more = ", ..." if len(submission.returns) > SHOWN_RETURNS else ""
    failed = f"; {submission.failed} failed" if submission.failed else ""
    return (
        f"{name}: mean return {number(submission.train_mean or 0.0)} of {len(submission.returns)} episodes "
        f"({returns}{more}){failed}"
    )


def _details(state: RunState, submission: SubmissionState, trace: Path, step: int) -> list[str]:
    """Return lines on a submission: why it failed, what it printed, and steps of its first episode."""
    assert submission.published is not None  # noqa: S101 - for the type checker; as the caller checked
    if error := submission.published.error:
        return [_cut(error.traceback or error.message)]
    tracebacks = [each.failure.traceback for each in submission.episodes if each and each.failure]
    lines = [submission.trouble, *map(_cut, tracebacks[:1])] if submission.failed else []
    for name in ("stdout", "stderr"):
        printed = regular_file.read(trace / f"{name}.txt", MOST_PRINTED, trace).decode("utf-8", "replace").strip()
        lines += [f"{name}: {_cut(printed)}"] if printed else []
    lines.append(f"first episode, from step {step} (observation; action; reward):")
    spaces = from_schema(state.opened.observation_schema), from_schema(state.opened.action_schema)
    shown = islice(read_steps(trace, *spaces) or (), step, step + SHOWN_STEPS)
    return lines + [_step_text(step + place, each) for place, each in enumerate(shown)]


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_OUTPUT else f"...{text[-SHOWN_OUTPUT:]}"


def _step_text(index: int, step: Step) -> str:
    return f"{index}: {_value_text(step.observation)}; {_value_text(step.action)}; {number(step.reward)}"


def _value_text(value: Any) -> str:  # noqa: ANN401 - a value of any space
    text = dumps(_rounded(value))
    return text if len(text) <= SHOWN_VALUE else f"{text[:SHOWN_VALUE]}..."


def _rounded(value: Any) -> Any:  # noqa: ANN401 - as above
    match value:
        case float():
            return float(f"{value:.4g}")
        case list() | tuple():
            return [_rounded(each) for each in value]
        case dict():
            return {name: _rounded(each) for name, each in value.items()}
        case _ if hasattr(value, "tolist"):
            return _rounded(value.tolist())
        case _:
            return value
