"""The rows of a run, read from its run directory. Steps are read one row at a time."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any

import numpy as np

from evopolicygym.core.agent import OUTSIDE, SHELL
from evopolicygym.core.cases import Split
from evopolicygym.core.errors import RecordError
from evopolicygym.core.options import RUN_OPTIONS, changed_settings
from evopolicygym.core.png import png
from evopolicygym.core.rollout import Episode
from evopolicygym.core.run import RunState, SubmissionState
from evopolicygym.core.run_summary import RunSummary, UsageSummary
from evopolicygym.core.spaces import Box, Dict, RecordedSpace, Text, Tuple, UnknownSpace, recorded_space
from evopolicygym.core.submission import SubmissionStatus
from evopolicygym.core.text import printable, well_formed
from evopolicygym.core.world import STANDARD
from evopolicygym.records.checked import CheckedRun
from evopolicygym.records.labels import read_labels
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord
from evopolicygym.records.rows import (
    CurvePoint,
    EpisodeRow,
    Json,
    Numbers,
    Picture,
    RunRow,
    StepRow,
    SubmissionRow,
    TaskRow,
    json_text,
)
from evopolicygym.records.task_text import task_text
from evopolicygym.records.trajectories import Step, read_steps
from evopolicygym.specs.identity import environment_identity
from evopolicygym.specs.measured_anchors import with_anchors

FURTHER = tuple(option for option in RUN_OPTIONS if option.comparability_label and not option.record_field)
"""Options that runs must agree in and that a row has among its choices."""
UNKNOWN_OF_RELEASE: dict[str, Any] = dict.fromkeys(
    (
        *(
            "split",
            "text",
            "interface",
            "world",
            "feedback",
            "memory",
            "train_cases",
            "validation_cases",
            "finish_allowed",
        ),
        *("min_episodes", "turns", "resumes"),
    )
)
"""Columns of a run's row that a record of the paper's release doesn't tell, besides those that are empty."""


def run_row(run: CheckedRun) -> RunRow:
    """Return a run's row."""
    summary, labels = run.summary, read_labels(run.root)
    task, agent, outcome, timing = summary.task, summary.agent, summary.outcome, summary.timing
    environment, budget, usage = with_anchors(task.environment), task.budget, summary.usage or UsageSummary({})
    unknown = {} if environment.is_known else UNKNOWN_OF_RELEASE
    facts: dict[str, Any] = {
        "split": summary.split.value,
        "text": task.text.value,
        "interface": task.interface.value,
        "world": str(task.choices.get("world", STANDARD)),
        "feedback": task.feedback.value,
        "memory": task.memory.value,
        "train_cases": task.train_cases,
        "validation_cases": task.validation_cases,
        "finish_allowed": task.finish_allowed,
        "finish": _finish(summary),
        "min_episodes": budget.min_per_submission,
        "turns": len(timing.agent_turns),
        "resumes": len(timing.resumed_at),
    }
    return RunRow(
        **(facts | unknown),
        root=run.root,
        run_id=summary.run_id,
        record=run.state,
        unchecked=run.unchecked or None,
        task=environment.name,
        environment_id=environment.id or None,
        family=environment.family,
        kind=environment.kind if environment.is_known else None,
        environment=environment_identity(environment),
        agent=summary.entry,
        agent_kind=agent.name,
        label=agent.label or None,
        program_sha256=agent.program_sha256 or None,
        program_changes=tuple(change.program_sha256 for change in summary.program_changes),
        agent_version=summary.agent_version or None,
        model=agent.model or None,
        model_server=agent.model_server or None,
        model_details=summary.model_details or None,
        effort=agent.effort or None,
        command=agent.command,
        options=agent.options,
        allowance=agent.allowance,
        max_cost_usd=agent.allowance.cost,
        max_tokens=agent.allowance.tokens,
        max_time_s=agent.allowance.seconds,
        max_turns=agent.allowance.turns,
        seed=summary.seed,
        experiment=run.experiment_name or summary.experiment or None,
        experiment_id=summary.experiment or None,
        nonce=summary.nonce or None,
        repeats=summary.repeats,
        cases_differ=summary.cases_differ,
        revealed=bool(summary.revealed),
        commitment=summary.commitment or None,
        protocol_version=summary.protocol_version,
        evopolicygym_version=summary.evopolicygym_version or None,
        versions=summary.fingerprint.versions or None,
        simulator_code=summary.fingerprint.simulator_code or None,
        task_fingerprint=summary.fingerprint.spec_sha256 or None,
        isolation=summary.isolation.level or None,
        stage=summary.stage.value,
        status=outcome.status.value if outcome.status else None,
        ended_by=summary.ended_by or None,
        is_early=summary.is_early,
        success_rate=outcome.success_rate,
        held_out_returns=outcome.held_out_returns or (),
        validation_mean=outcome.validation_mean,
        selected_submission=outcome.selected_submission,
        first_reached_submission=summary.first_reached,
        budget=summary.budget.episodes,
        spent=summary.budget.spent,
        submissions=summary.budget.submissions,
        checkpoints=tuple(submission.checkpoint for submission in summary.submissions),
        distinct_checkpoints=len({candidate.checkpoint for candidate in summary.candidates}),
        held_out_cases=task.held_out_cases or None,
        curve=_curve(summary),
        choices=changed_settings(task, FURTHER),
        random_anchor=environment.random_anchor,
        idle_anchor=environment.idle_anchor,
        reference_anchor=environment.reference_anchor,
        max_episodes=budget.max_per_submission,
        max_submissions=budget.max_submissions,
        films=task.films,
        skill=task.skill or None,
        policy_packages=" ".join(task.policy_packages) or None,
        policy_limits=task.limits.changed or None,
        tokens=summary.tokens,
        cost_usd=summary.cost,
        cost_is_lower_bound=summary.cost_is_lower_bound,
        price=summary.price,
        token_counts=counted.token_counts if (counted := summary.usage_with_tokens) else None,
        requests=counted.requests if counted else None,
        model_requests=_count(usage.requests),
        unknown_generations=_count(usage.unknown_generations),
        input_tokens=_count(usage.input_tokens),
        cached_input_tokens=_count(usage.cached_input_tokens),
        output_tokens=_count(usage.output_tokens),
        reasoning_tokens=_count(usage.reasoning_tokens),
        model_seconds=usage.seconds,
        tool_usage=(summary.tool_usage.amounts or None) if summary.tool_usage else None,
        opened_at=timing.opened,
        finished_at=timing.finished,
        train_seconds=float(timing.train_seconds),
        turn_seconds=float(sum(turn.seconds for turn in timing.agent_turns)),
        wall_seconds=timing.wall_seconds,
        name=printable(labels.name) or None,
        tags=tuple(map(printable, labels.tags)) or None,
        note=printable(labels.note) or None,
    )


def _count(amount: float | None) -> int | None:
    return None if amount is None else int(amount)


def _curve(summary: RunSummary) -> tuple[CurvePoint, ...]:
    spent = accumulate(submission.n_episodes for submission in summary.submissions)
    return tuple(
        CurvePoint(episodes, submission.validation_mean if submission.status is SubmissionStatus.OK else None)
        for episodes, submission in zip(spent, summary.submissions, strict=True)
    )


def task_row(record: RunRecord) -> TaskRow:
    """Return the row of a run's task; of one of the paper's release, only the name is known."""
    opened = record.state.opened
    task, environment = opened.task, opened.task.environment
    is_known = environment.is_known
    return TaskRow(
        run_id=opened.run_id,
        task=environment.name,
        task_fingerprint=opened.spec_sha256 or None,
        task_text=well_formed(task_text(record.state)) if is_known else None,
        observation_space=opened.observation_schema if is_known else None,
        action_space=opened.action_schema if is_known else None,
        max_steps=environment.max_steps if is_known else None,
        reward_components=environment.reward_components,
        success=environment.success,
        policy_limits=task.limits if is_known else None,
        random_anchor=environment.random_anchor,
        idle_anchor=environment.idle_anchor,
        degenerate_anchor=environment.degenerate_anchor,
        reference_anchor=environment.reference_anchor,
    )


def _finish(summary: RunSummary) -> str | None:
    if summary.agent.name in {OUTSIDE, SHELL}:
        return None
    return "allowed" if summary.task.finish_allowed else "refused"


def submission_rows(record: RunRecord) -> list[SubmissionRow]:
    """Return the rows of a run's submissions."""
    return [_submission(record, submission) for submission in record.state.submissions]


def _submission(record: RunRecord, submission: SubmissionState) -> SubmissionRow:
    state, published = record.state, submission.published
    train, validation = submission.train, state.validation(submission.charged.checkpoint)
    return SubmissionRow(
        run_id=state.opened.run_id,
        submission=submission.index,
        status=submission.status.value,
        checkpoint=submission.charged.checkpoint,
        is_selected=state.is_selected(submission),
        episodes=len(submission.episodes),
        played=len(submission.returns),
        failed_episodes=submission.failed,
        remaining_budget=submission.remaining_budget,
        train_mean=train.mean if train else None,
        train_standard_error=train.standard_error if train else None,
        validation_mean=validation.mean if validation else None,
        validation_standard_error=validation.standard_error if validation else None,
        error=published.error.message if published and published.error else None,
        charged_at=_time(submission.charged.time),
        published_at=_time(published.time) if published else None,
        seconds=published.wall_time_s if published else None,
    )


def episode_rows(record: RunRecord) -> Iterator[EpisodeRow]:
    """Yield the rows of a run's episodes: those of each submission, then the hidden ones."""
    state = record.state
    for submission in state.submissions:
        cases = submission.charged.env_instances
        checkpoint = submission.charged.checkpoint
        yield from _episode_rows(state, Split.TRAIN, checkpoint, cases, submission.episodes, submission.index)
    for rollout in state.hidden:
        cases = tuple(range(len(rollout.episodes)))
        yield from _episode_rows(state, rollout.split, rollout.checkpoint, cases, rollout.episodes, None)


def _episode_rows(
    state: RunState,
    split: Split,
    checkpoint: str,
    cases: Sequence[int],
    episodes: Sequence[Episode | None],
    submission: int | None,
) -> Iterator[EpisodeRow]:
    for position, (case, episode) in enumerate(zip(cases, episodes, strict=True)):
        if episode is None:
            continue
        failure, has_end = episode.failure, episode.terminated or episode.truncated
        is_ours = state.opened.task.environment.is_known
        yield EpisodeRow(
            run_id=state.opened.run_id,
            episode=f"{split.value}/{checkpoint if submission is None else submission}/{position}",
            split=split.value,
            submission=submission,
            checkpoint=checkpoint,
            position=position,
            case=case,
            episode_return=episode.episode_return,
            length=episode.length or None,
            terminated=episode.terminated if has_end else None,
            truncated=episode.truncated if has_end else None,
            success=episode.succeeded,
            failure=failure.reason.value if failure else None,
            failure_step=failure.step if failure else None,
            failure_message=failure.message if failure else None,
            actions_clipped=episode.actions_clipped if is_ours else None,
            reward_components=json_text(dict(episode.reward_components)),
            seconds=episode.seconds if is_ours else None,
            trajectory_sha256=episode.trajectory_sha256,
        )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def episode_steps(paths: RunPaths, state: RunState, episode: EpisodeRow) -> Iterator[Step] | None:
    """Return an episode's recorded steps; None if none were recorded or their files are gone."""
    if episode.submission is None:
        directory = paths.hidden_episode(Split(episode.split), episode.checkpoint, episode.position)
    else:
        number = state.submissions[episode.submission].first_global_episode + episode.position
        directory = paths.train_episode(episode.submission, number)
    steps = read_steps(directory, *spaces(state), root=paths.root)
    return None if steps is None else _check_count(steps, episode, str(directory))


def spaces(state: RunState) -> tuple[RecordedSpace, RecordedSpace]:
    """Return the spaces of a run's observations and actions."""
    return recorded_space(state.opened.observation_schema), recorded_space(state.opened.action_schema)


def step_rows(paths: RunPaths, state: RunState, episode: EpisodeRow) -> Iterator[StepRow]:
    """Yield the rows of an episode's recorded steps."""
    observations, actions = spaces(state)
    for index, step in enumerate(episode_steps(paths, state, episode) or ()):
        last = index + 1 == episode.length
        observation, observation_json = _cells(observations, step.observation)
        action, action_json = _cells(actions, step.action)
        final, final_json = _cells(observations, step.final_observation)
        yield StepRow(
            run_id=episode.run_id,
            episode=episode.episode,
            split=episode.split,
            submission=episode.submission,
            checkpoint=episode.checkpoint,
            position=episode.position,
            case=episode.case,
            step=index,
            observation=observation,
            observation_shape=None if observation is None else np.shape(step.observation),
            observation_picture=_picture(observations, step.observation),
            observation_json=observation_json,
            action=action,
            action_json=action_json,
            reward=step.reward,
            terminated=last and bool(episode.terminated),
            truncated=last and bool(episode.truncated),
            action_clipped=step.clipped,
            info=None if step.info is None else json_text(step.info),
            final_observation=final,
            final_observation_json=final_json,
        )


def _check_count(steps: Iterator[Step], episode: EpisodeRow, where: str) -> Iterator[Step]:
    """Yield the steps; raise ``RecordError`` if their number isn't the episode's length."""
    count = 0
    for step in steps:
        count += 1
        yield step
    if count != episode.length:
        raise RecordError(f"{where} has {count} steps; the event log says that the episode had {episode.length}.")


def _picture(space: RecordedSpace, value: Any) -> Picture | None:  # noqa: ANN401 - a value of any space
    if value is None or not isinstance(space, Box) or not space.is_picture:
        return None
    return Picture(png(np.asarray(value, np.uint8)))


def _cells(space: RecordedSpace, value: Any) -> tuple[Numbers | None, Json | None]:  # noqa: ANN401 - a value of any space
    """Return a value for the column of numbers and for that of JSON; one of them is None."""
    if value is None:
        return None, None
    if isinstance(space, Dict | Tuple | Text | UnknownSpace):
        return None, json_text(value)
    return np.asarray(value, np.float64).ravel(), None
