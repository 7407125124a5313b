"""Answers of the judge as text for agents."""

import json
from collections.abc import Iterator

from .client import Answer
from .seat import FINISHED, SPENT

CLOSING = "the run is closing, and submissions are validated. Results stay in feedback/."
FINISH = f"{FINISHED}: {CLOSING}"


def progress(answer: Answer) -> str:
    """Return the progress of a submission, or how many are played before it."""
    state = answer.get("progress") or {"played": 0, "of": 0}
    if state.get("ahead"):
        return f"{state['ahead']} submission{'s' if state['ahead'] > 1 else ''} to be played before it"
    return f"{state['played']} of {state['of']} episodes"


def check(answer: Answer) -> str:
    """Return the result of a check, the policy's output, and its traceback."""
    lines = [f"{name}: {answer[name].rstrip()}" for name in ("stdout", "stderr") if answer[name]]
    times = (("constructed", answer["load_s"]), ("acted", answer["act_s"]))
    took = ", ".join(f"{what} in {_duration(seconds)}" for what, seconds in times if seconds is not None)
    error = answer["error"]
    status = answer["status"] if error is None else f"{answer['status']}: {error['message']}"
    lines.append(f"{status} ({took})" if took else status)
    return "\n".join([*lines, *([error["traceback"]] if error and error["traceback"] else [])])


def submission(answer: Answer) -> str:
    """Return a submission: its status and a table of its episodes."""
    return "\n".join(_submission_lines(answer))


def _submission_lines(answer: Answer) -> Iterator[str]:
    number, summary = answer["submit_id"], answer.get("summary")
    if summary is None:
        yield f"submission {number}: {answer['status']}, {progress(answer)}; ./judge wait {number}"
        return
    many = _how_many(answer.get("failed_episodes"), summary["n_episodes"])
    failed = f", but the policy failed in {many} of its episodes" if many else ""
    yield f"submission {number}: {summary['status']}{failed}, {summary['remaining_budget']} episodes left"
    if summary.get("returns"):
        spread = " ".join(f"{name} {_number(summary.get(f'{name}_return'))}" for name in ("std", "min", "max"))
        success = f", success {_number(summary['success_rate'])}" if "success_rate" in summary else ""
        yield f"mean return {_number(summary['mean_return'])} ({spread}){success}"
        yield from _episode_lines(summary)
        yield from _act_time(summary)
    for film in summary.get("films") or []:
        what = film["problem"] or ", ".join(name for name in (film["sheet"], film["film"]) if name)
        yield f"film of case {film['env_instance']}: {'none, as ' if film['problem'] else ''}{what}"
    if answer.get("trouble"):
        yield answer["trouble"]
    yield from _remarks(answer)
    why = "" if summary["status"] == "ok" else "; errors.txt has the reason"
    yield f"files: feedback/submit_{number:03d}/{why}"
    if not summary["remaining_budget"]:
        yield f"{SPENT}: {CLOSING}"


def _act_time(summary: Answer) -> Iterator[str]:
    """Yield the processor time of one act, averaged over each episode, beside its limit."""
    times = [seconds for seconds in summary.get("act_seconds") or [] if seconds is not None]
    if times:
        mean, most = sum(times) / len(times), max(times)
        of = f"on average, {_duration(most)} in the slowest episode (limit {summary['act_seconds_limit']:g} s)"
        yield f"act: {_duration(mean)} of processor time {of}"


def _episode_lines(summary: Answer) -> Iterator[str]:
    yield f"{'episode':>8} {'case':>5} {'return':>12} {'length':>7}  ended"
    rows = zip(summary["env_instances"], summary["returns"], summary["episode_lengths"], strict=True)
    for position, (case, episode_return, length) in enumerate(rows):
        episode = f"ep_{(summary.get('first_global_episode') or 0) + position:03d}"
        ended = (summary.get("ended") or {position: ""})[position]
        yield f"{episode:>8} {case:>5} {_number(episode_return):>12} {length:>7}  {ended}".rstrip()


def _remarks(answer: Answer) -> "list[str]":
    """Return lines on a submission's set parameters, its parent and its hypothesis."""
    values = " ".join(f"{name}={value}" for name, value in (answer.get("set") or {}).items())
    parent, expected = answer.get("parent"), answer.get("hypothesis")
    lines = ["set: " + values if values else "", f"made from: {parent}" if parent is not None else ""]
    return [line for line in [*lines, f"expected: {expected}" if expected else ""] if line]


def submissions(answer: Answer) -> str:
    """Return a line for each submission."""
    if not answer["submissions"]:
        return "No submissions yet. ./judge check tests the policy, ./judge submit 0-3 plays it on cases 0 to 3."
    lines = [f"{'submission':>10} {'status':>15} {'episodes':>8} {'mean return':>12}  cases"]
    for entry in answer["submissions"]:
        mean, episodes = _number(entry.get("mean_return")), entry.get("n_episodes") or 0
        many = _how_many(entry.get("failed_episodes"), episodes)
        status = f"{entry['status']}, {many} failed" if many else entry["status"]
        cases = _ranges(entry.get("env_instances") or [])
        lines.append(f"{entry['submit_id']:>10} {status:>15} {episodes:>8} {mean:>12}  {cases}".rstrip())
        lines += [f"{'':>10} {line}" for line in (entry.get("trouble"), *_remarks(entry)) if line]
    return "\n".join(lines)


def nested(answer: Answer, indent: str = "") -> str:
    """Return nested names and values, one on each line."""
    lines = []
    for name, value in answer.items():
        if isinstance(value, dict) and "type" not in value:
            lines += [f"{indent}{name}:", *([nested(value, indent + "  ")] if value else [])]
        else:
            lines.append(f"{indent}{name}: {value if isinstance(value, str) else json.dumps(_with_one_bound(value))}")
    return "\n".join(lines)


def _with_one_bound(value: object) -> object:
    """Return a description of spaces in which bounds that are the same for all elements are one number."""
    if isinstance(value, list):
        return [_with_one_bound(part) for part in value]
    if not isinstance(value, dict):
        return value
    bounds = {name: _one_bound(value[name]) for name in ("low", "high") if isinstance(value.get(name), list)}
    return {name: _with_one_bound(part) for name, part in value.items()} | {
        name: bound for name, bound in bounds.items() if bound is not None
    }


def _one_bound(numbers: object) -> object:
    """Return the one value of nested lists; None if there are several, or none."""
    if not isinstance(numbers, list):
        return numbers
    values = {_one_bound(number) for number in numbers}
    return values.pop() if len(values) == 1 else None


def _ranges(cases: "list[int]") -> str:
    """Return cases as they can be submitted again: 0-7,12."""
    runs: list[list[int]] = []
    for case in cases:
        if runs and case == runs[-1][-1] + 1:
            runs[-1].append(case)
        else:
            runs.append([case])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _how_many(failed: "int | None", episodes: int) -> str:
    """Return the number of failed episodes, or "all"; empty if none failed."""
    return "" if not failed else "all" if failed == episodes else str(failed)


def _duration(seconds: float) -> str:
    """Return a time in seconds, or in milliseconds if it is shorter than one."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{float(f'{1000 * seconds:.2g}'):g} ms"


def _number(value: object) -> str:
    """Return a number for a table; numbers that are not finite arrive as text."""
    return "-" if value is None else value if isinstance(value, str) else f"{value:.4f}"
