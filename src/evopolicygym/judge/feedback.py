"""What an agent may see of a submission: decides it, in one place.

Never in here: a seed, anything of validation or held-out, anchors, paths of the host.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evopolicygym.core.agent import AllowanceUse
from evopolicygym.core.event import SCHEMA_VERSION, SubmissionCharged, SubmissionPublished
from evopolicygym.core.rollout import Episode, FailureReason
from evopolicygym.core.run import RunState, SubmissionState
from evopolicygym.core.score import total
from evopolicygym.core.strict_json import dumps
from evopolicygym.core.submission import STARTER, LoadError, SubmissionStatus
from evopolicygym.core.task import BudgetRule, Memory
from evopolicygym.judge.films import FilmReply, film_notes
from evopolicygym.judge.request import STARTER_WORD
from evopolicygym.records.paths import EPISODES, SUMMARY, RunPaths

ERRORS = "errors.txt"


def visible(state: RunState) -> RunState:
    """Return what the agent's present conversation may know of a run.

    Of independent samples that is a run of one submission, of which nothing came before the conversation.
    """
    task = state.opened.task
    if task.memory is Memory.FULL:
        return state
    budget = BudgetRule(task.budget.most, task.budget.min_per_submission, task.budget.max_per_submission, 1)
    own = tuple(map(state.shown, state.submissions[state.conversation_start :]))
    return replace(
        state,
        opened=replace(state.opened, task=replace(task, budget=budget)),
        submissions=own,
        turns=0,
        pauses=0,
        ended=AllowanceUse(),
        restored=None,
    )


def first_visible(state: RunState) -> int:
    """Return the index of the first submission that the agent's present conversation may know, as its number 0."""
    return 0 if state.opened.task.memory is Memory.FULL else state.conversation_start


def write_summary(
    paths: RunPaths, state: RunState, index: int, published: SubmissionPublished, films: Sequence[FilmReply] = ()
) -> None:
    """Write ``summary.json``, and ``errors.txt`` where the status is not ok, beside the episodes in staging."""
    staged = paths.staged_feedback(index)
    (staged / EPISODES).mkdir(parents=True, exist_ok=True)
    if published.error:
        (staged / ERRORS).write_text(dumps(_error_line(published.error, published.time)) + "\n", encoding="utf-8")
    document = summary(state, state.submissions[index], published, films)
    (staged / SUMMARY).write_text(dumps(document, indent=2) + "\n", encoding="utf-8")


def summary(
    state: RunState, submission: SubmissionState, published: SubmissionPublished, films: Sequence[FilmReply] = ()
) -> dict[str, Any]:
    """Return what ``summary.json`` says; null, not empty, where nothing was played."""
    task, environment = state.opened.task, state.opened.shown_environment
    played = published.status is SubmissionStatus.OK
    episodes = [episode for episode in submission.episodes if episode is not None] if played else []
    shown = task.feedback.shows_episodes  # a policy can burn processor time at will, to tell what it saw
    return {
        "schema_version": SCHEMA_VERSION,
        "submit_index": submission.index,
        "env": environment.name,
        "status": published.status.value,
        "n_episodes": len(submission.episodes),
        "first_global_episode": submission.first_global_episode,
        "env_instances": list(submission.charged.env_instances),
        "remaining_budget": submission.remaining_budget,
        **said_with(submission.charged),
        "submit_started_at": submission.charged.time,
        "submit_completed_at": published.time,
        "wall_time_seconds": published.wall_time_s,
        **_returns(episodes),
        "errors": _failed(episodes, timeouts=False) if played else None,
        "timeouts": _failed(episodes, timeouts=True) if played else None,
        "ended": [_ended(episode, in_full=shown) for episode in episodes] or None,
        "act_seconds": [episode.act_seconds for episode in episodes] or None if shown else None,
        "act_seconds_limit": task.limits.act_s,
        **_components(episodes, _component_names(state)),
        **({"success_rate": _success_rate(episodes)} if task.environment.success else {}),
        **({"films": film_notes(films, submission) if played else None} if task.films else {}),
    }


def said_with(charged: SubmissionCharged) -> dict[str, Any]:
    """Return what the agent said with a submission: values that it set, what it was made from, what it expected."""
    parent = STARTER_WORD if charged.parent == STARTER else charged.parent
    return {"set": dict(charged.settings), "parent": parent, "hypothesis": charged.hypothesis}


def _returns(episodes: Sequence[Episode]) -> dict[str, Any]:
    returns = [episode.episode_return for episode in episodes] or None
    lengths = [episode.length for episode in episodes] or None
    return {
        "returns": returns,
        "mean_return": _mean(returns) if returns else None,
        "std_return": _deviation(returns) if returns else None,
        "min_return": min(returns) if returns else None,
        "max_return": max(returns) if returns else None,
        "episode_lengths": lengths,
        "mean_episode_length": _mean(lengths) if lengths else None,
    }


def _ended(episode: Episode, *, in_full: bool) -> str:
    """Return how an episode ended; not in full, of a failure the kind and step without its message."""
    if in_full or episode.failure is None:
        return episode.ended
    return f"failed: {episode.failure.reason} at step {episode.failure.step}"


def _mean(values: Sequence[float]) -> float:
    return total(values) / len(values)


def _deviation(values: Sequence[float]) -> float:
    """Return the population's standard deviation."""
    mean = _mean(values)
    return math.sqrt(_mean([(value - mean) * (value - mean) for value in values]))


def _failed(episodes: Sequence[Episode], *, timeouts: bool) -> list[int]:
    """Return the local indices of episodes whose policy ran out of time, or failed in any other way."""
    return [
        local
        for local, episode in enumerate(episodes)
        if episode.failure and (episode.failure.reason is FailureReason.TIMEOUT) is timeouts
    ]


def _component_names(state: RunState) -> dict[str, str]:
    """Return what the agent is shown for the name of each part of the reward, in the order in which it is shown."""
    names = state.opened.task.environment.reward_components
    shown: Mapping[str, str] = state.opened.interface.get("components", {})
    return dict(sorted(shown.items(), key=lambda pair: pair[1])) or {name: name for name in names}


def _components(episodes: Sequence[Episode], names: Mapping[str, str]) -> dict[str, Any]:
    each = [{names[name]: episode.reward_components[name] for name in names} for episode in episodes]
    mean = {name: _mean([components[name] for components in each]) for name in names.values()} if each else None
    return {
        "reward_components_mean": mean or None,
        "reward_components_per_episode": [dict(components) for components in each] if mean else None,
    }


def _success_rate(episodes: Sequence[Episode]) -> float | None:
    return _mean([bool(episode.succeeded) for episode in episodes]) if episodes else None


def _error_line(error: LoadError, time: str) -> dict[str, Any]:
    return {
        "category": error.status.value,
        "message": error.message,
        "traceback": error.traceback,
        "timestamp": time,
    }
