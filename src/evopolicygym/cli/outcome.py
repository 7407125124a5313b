"""The outcome of a run: its score beside others, problems, the run directory, and the next commands."""

from collections.abc import Iterator
from math import hypot
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from evopolicygym.analysis.run_scores import Row, compare
from evopolicygym.core.agent import ANSWERS, AgentConfig, AgentEnd
from evopolicygym.core.cases import Split
from evopolicygym.core.event import AgentEnded, CloseReason, RunOpened, RunStopped
from evopolicygym.core.options import KNOBS, changed_settings
from evopolicygym.core.rollout import failures, is_unverified
from evopolicygym.core.run import RunState, Stage
from evopolicygym.core.run_summary import UsageSummary
from evopolicygym.core.task import Task
from evopolicygym.core.text import counted, number, plus_minus, printable, shell_word
from evopolicygym.records.atomic import is_locked
from evopolicygym.records.checked import CheckedRun, RecordState, look_at_run
from evopolicygym.records.checkpoints import starter_checkpoint
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.reader import RunRecord, read_run
from evopolicygym.records.run_document import run_document, success_rate, summary_of
from evopolicygym.specs.measured_anchors import other_simulators, with_anchors

NORMAL_ENDS = frozenset({AgentEnd.FINISHED, AgentEnd.STOPPED})
"""Ends of an agent's turn that need no warning."""
NOISE = 2.0
"""A score within this many standard errors of the random anchor counts as random play."""
CLOSED = {
    CloseReason.BUDGET_SPENT: "the budget was spent",
    CloseReason.SUBMISSIONS_SPENT: "all submissions were made",
    CloseReason.FINISH_ASKED: "the agent asked to finish",
    CloseReason.AGENT_ENDED: "the agent ended",
    CloseReason.ALLOWANCE_SPENT: "the agent reached one of its limits",
}

REVEALED = " (revealed before it began)"


def show_outcome(
    console: Console, record: RunRecord, checked: CheckedRun | None = None, *, submissions_shown: bool = False
) -> None:
    """Print a run's outcome, and how far a ``checked`` record is to be believed.

    ``submissions_shown`` tells that its submissions were printed before.
    """
    state, root = record.state, record.paths.root  # without a score, what to do about it is the last that is read
    show_result(console, record)
    is_without_score = state.finished and not state.held_out()
    if not is_without_score:
        _show_problems(console, record)
    if state.held_out():
        console.print(_comparison(compare(state)))
    if usage := _format_usage(summary_of(record).usage):
        console.print(Text(f"model   {usage}"), soft_wrap=True)
    turns = [event.findings for event in record.events if isinstance(event, AgentEnded)]
    if answers := "; ".join(findings[ANSWERS] for findings in turns if ANSWERS in findings):
        console.print(Text(f"answers {printable(answers)}"), soft_wrap=True)
    opened = state.opened
    console.print(Text(f"entry   {_format_agent(opened.agent)}"), soft_wrap=True)
    if submissions_shown and (made_by := " ".join(filter(None, (opened.evopolicygym_version, opened.agent_version)))):
        console.print(Text(f"made by evopolicygym {printable(made_by)}"), soft_wrap=True)
    if submissions_shown and opened.model_details:
        details = ", ".join(f"{name} {value}" for name, value in opened.model_details.items())
        console.print(Text(f"        {printable(details)}"), soft_wrap=True)
    if submissions_shown and opened.repeats:
        console.print(Text("repeats two processes played short episodes alike"), soft_wrap=True)
    console.print(Text(f"record  {root}"), soft_wrap=True)
    if checked and checked.state is not RecordState.PLAYED_HERE and state.finished:
        why = f": {checked.unchecked}" if checked.unchecked else ""
        style = "bold red" if checked.state is RecordState.FAILED else "yellow" if why else ""
        console.print(Text(f"        {checked.state}{printable(why)}", style), soft_wrap=True)
    is_playing = is_locked(record.paths.lock)
    if is_playing and not state.finished:
        console.print(Text("This run is being played by another process."), soft_wrap=True)
    for verb in _next_verbs(state, submissions_shown=submissions_shown, is_playing=is_playing):
        console.print(Text(f"next    evopolicygym {verb} {shell_word(root)}", style="dim"), soft_wrap=True)
    if is_without_score:
        _show_problems(console, record)


def _show_problems(console: Console, record: RunRecord) -> None:
    """Print problems; those of the agent, with what may help, are last."""
    for subject, problem in sorted(_problems(record), key=lambda pair: pair[0] == "agent"):
        console.print(Text(f"{subject:<8}{printable(problem)}", style="yellow"), soft_wrap=True)


def show_result(console: Console, record: RunRecord) -> None:
    """Print only a run's score in a box, or why it has none."""
    state, subjects = record.state, dict(_problems(record)).keys()
    is_good = state.held_out() and not random_play(state) and subjects.isdisjoint({"policy", "agent"})
    console.print(Panel(_headline(state), expand=False, border_style="green" if is_good else "yellow"))


def as_json(root: Path) -> dict[str, object]:
    """Return ``run.json`` with the run's path and values computed from its event log."""
    checked, state = look_at_run(root), read_run(root).state
    return {
        "run": str(root),
        "record": checked.state.value,
        "unchecked": checked.unchecked,
        "entry": state.opened.agent.entry,
        "being_played": is_locked(RunPaths(root).lock),
        "first_reached_submission": state.first_reached,
        "candidates": len(state.candidates),
        "distinct_checkpoints": len(state.checkpoints),
        "random_play": random_play(state) or None,
        "selection_optimism": _selection_optimism(state),
        "distinct_held_out_trajectories": _distinct_held_out(state),
        "experiment_name": checked.experiment_name or None,
        **run_document(RunPaths(root)),
    }


def _format_agent(agent: AgentConfig) -> str:
    """Return what tables call an agent, with its kind beside it where the name doesn't say it."""
    entry = printable(agent.entry)
    return f"{entry} ({printable(agent.name)})" if agent.label else entry


def _selection_optimism(state: RunState) -> float | None:
    """Return the selected checkpoint's validation mean less its held-out mean; None without a score."""
    held_out = state.held_out()
    validation = state.selected.validation_mean if state.selected else None
    return None if held_out is None or validation is None else validation - held_out.mean


def _distinct_held_out(state: RunState) -> int | None:
    """Return how many held-out episodes of the score differ; None without a score, or a trajectory's hash."""
    if not state.selected or state.held_out() is None:
        return None
    held_out = state.rollout(Split.HELD_OUT, state.selected.checkpoint)
    hashes = {episode.trajectory_sha256 if episode else "" for episode in held_out.episodes}
    return len(hashes) if all(hashes) else None


def _problems_of_environment(opened: RunOpened) -> Iterator[tuple[str, str]]:
    if others := other_simulators(opened.task.environment.name, opened.spec_sha256, opened.versions):
        yield "anchors", f"of other versions: the run was played with {'; '.join(others)}, so they may not hold here"
    if opened.repeats is False:
        yield "repeat", "no: two processes played short episodes differently, so the score can't be replayed"
    if opened.cases_differ is False:
        yield (
            "cases",
            "the same actions gave one short episode for each seed: ± is of one case if they don't differ later",
        )


def _problems(record: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield problems of a run, each with its subject."""
    state = record.state
    yield from _problems_of_environment(state.opened)
    if state.selected:
        held_out = state.rollout(Split.HELD_OUT, state.selected.checkpoint)
        if text := failures("held-out episodes", held_out.episodes):
            yield "policy", text
        if len(held_out.episodes) > 1 and _distinct_held_out(state) == 1:
            yield (
                "cases",
                f"all {len(held_out.episodes)} held-out episodes are the same: ± 0 is of one episode, not precision",
            )
    elif state.closed and not state.candidates:
        load_errors = [reason for submission in state.submissions if (reason := submission.load_error)]
        if load_errors:
            yield "policy", f"no submission could be played, the last for {load_errors[-1]}"
    ends = [event for event in record.events if isinstance(event, AgentEnded)]
    is_abnormal = bool(ends) and ends[-1].end not in NORMAL_ENDS
    if is_abnormal:
        yield "agent", f"{ends[-1].end}: {ends[-1].message or 'no message'}"
    if state.program_changes:
        yield "program", f"changed when the run was resumed at {state.program_changes[-1].time}"
    unspent = state.remaining if state.closed else 0
    if state.closed and unspent:
        reason = state.closed.reason
        yield "unspent", f"{unspent} of {state.budget} episodes, as {CLOSED[reason]} ({reason})"
    last = record.events[-1]
    if isinstance(last, RunStopped):
        yield "stopped", ": ".join(filter(None, (last.reason, last.message)))
    if (is_abnormal or unspent or isinstance(last, RunStopped)) and record.paths.transcript.is_file():
        yield "log", str(record.paths.transcript)


def _next_verbs(state: RunState, *, submissions_shown: bool, is_playing: bool) -> Iterator[str]:
    """Yield the verbs that are useful next."""
    if not state.opened.task.environment.is_known:
        yield "diagnose"
        return
    if not state.finished and not is_playing:
        yield "resume"
    if not submissions_shown:
        yield "show"
    if state.finished:
        yield "verify --replay" if state.held_out() else "verify"


def _headline(state: RunState) -> Text:
    held_out, opened = state.held_out(), state.opened
    if held_out is None or state.selected is None:
        if state.finished:
            text = "no score: nothing playable was submitted"
        elif state.stage is Stage.OPEN:
            text = f"unfinished, {state.spent} of {counted(state.budget, 'episode')} spent"
        else:
            text = f"unfinished, {'validation' if state.stage is Stage.CLOSED else 'held-out'} is not complete"
        release = "" if opened.task.environment.is_known else f"; protocol {opened.protocol_version}, unverified"
        return Text(f"{opened.task.environment.name}: {text}{release}", style="yellow")
    rate, random = success_rate(state), random_play(state)
    success = f", success rate {rate:.0%}" if rate is not None else ""
    optimism = _selection_optimism(state)
    if optimism is None:
        return Text.assemble(
            f"{opened.task.environment.name}: held-out score ",
            (plus_minus(held_out.mean, held_out.standard_error), "bold green"),
            f" over {counted(held_out.count, 'case')}\n",
            f"{_selected_at(state)} of {len(state.submissions)}; protocol {opened.protocol_version}, unverified",
        )
    return Text.assemble(
        f"{opened.task.environment.name}: held-out score ",
        (plus_minus(held_out.mean, held_out.standard_error), "bold green"),
        f" over {counted(held_out.count, 'case')}{success}\n",
        f"{_selected_at(state)} of {len(state.submissions)}{_distinct(state)}, validation mean "
        f"{number(state.selected.validation_mean)} ({_optimism_text(optimism)}); "
        f"{opened.split} split",
        f", nonce {printable(opened.nonce)}" if opened.nonce else "",
        REVEALED if opened.revealed else "",
        f", isolation {opened.isolation}",
        (" (unverified)" if is_unverified(opened.isolation) else "", "yellow"),
        _changed_settings(opened.task),
        (f"\n{random}" if random else "", "yellow"),
    )


def _optimism_text(difference: float) -> str:
    """Return how far the selected checkpoint's validation mean is above or below its held-out mean."""
    return f"{number(abs(difference))} {'above' if difference >= 0 else 'below'} held-out"


def _changed_settings(task: Task) -> str:
    """Format the task's settings that differ from the defaults."""
    settings = [
        name.replace("_", " ") + (f" {value}" if value is not True else "")
        for name, value in changed_settings(task, KNOBS).items()
    ]
    return f"\noptions: {printable(', '.join(settings))}" if settings else ""


def _selected_at(state: RunState) -> str:
    """Format the selected submission, and the earlier one that first had its checkpoint."""
    at, first = state.selected.submit_index if state.selected else None, state.first_reached
    return f"selected at submission {at}, first reached at {first}," if first != at else f"submission {at}"


def _distinct(state: RunState) -> str:
    candidates, checkpoints = len(state.candidates), len(state.checkpoints)
    if candidates == checkpoints:
        return ""
    return f" ({counted(candidates, 'candidate')}, {counted(checkpoints, 'distinct checkpoint')})"


def _format_usage(usage: UsageSummary | None) -> str:
    """Format the model's usage in a line; empty if the agent has no model."""
    if usage is None:
        return ""
    least = "at least " if usage.unknown_generations else ""
    parts = (
        f"{usage.tokens or 0:,.0f} tokens ({usage.input_tokens or 0:,.0f} in, {usage.output_tokens or 0:,.0f} out)",
        f"{usage.requests or 0:,.0f} requests",
        f"{usage.seconds or 0:,.0f} s of the model",
        "cost unknown" if usage.cost is None else f"{least}{usage.cost:,.4f} USD",
    )
    return ", ".join(parts)


def _comparison(rows: list[Row]) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("")
    table.add_column("mean return", justify="right")
    table.add_column("± s.e.", justify="right")
    table.add_column("source", style="dim")
    for row in rows:
        style = "bold green" if row.is_run else ""
        table.add_row(
            Text(printable(row.name)),
            number(row.mean, error=row.standard_error),
            number(row.standard_error, error=row.standard_error),
            Text(row.origin),
            style=style,
        )
    return table


def random_play(state: RunState) -> str:
    """Return why a run's score counts as random play; empty if it doesn't or there is no score."""
    held_out, selected = state.held_out(), state.selected
    if held_out is None or selected is None:
        return ""
    if selected.checkpoint == starter_checkpoint():
        return "this score is that of random play: the selected policy is the starter, which acts at random"
    anchor = with_anchors(state.opened.task.environment).random_anchor
    if anchor is None or held_out.standard_error is None:
        return ""
    noise = NOISE * hypot(held_out.standard_error, anchor.standard_error)
    if not abs(held_out.mean - anchor.mean) <= noise:
        return ""
    of_random = plus_minus(anchor.mean, anchor.standard_error)
    return f"this score is within {NOISE:g} standard errors of that of random play, {of_random}"
