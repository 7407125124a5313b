"""The commands of ``./judge``: words in, text or JSON out, and an exit code."""

import argparse
import io
import json
import os
import re
import secrets
import shlex
import sys
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from . import pictures, tables
from .client import Answer, NoJudge, Unreachable
from .seat import CHANGED, NO_JUDGES_ANSWER, Seat, SeatErrors, found_address
from .workspace_files import NotThere, Workspace

HELP = """The judge's client: read the task, submit the policy in system/, read its results.

Examples:
  ./judge task                    the objective, observations, actions, reward and rules
  ./judge info                    the remaining budget, limits, modules that can be imported
  ./judge check                   construct the policy in its sandbox and have it act once, free of charge
  ./judge submit 0-7              play the policy on train cases 0 to 7, wait, print a summary
  ./judge submit 5 5 12           case 5 twice, then case 12
  ./judge submit 0-7 --set speed=4.6
                                  with another value of a parameter that system/parameters.json declares
  ./judge submit 0-7 --films 2    have case 2 filmed as well, where the run has films (./judge info)
  ./judge submit 0-7 --no-wait    return at once; wait later with ./judge wait
  ./judge list                    all submissions
  ./judge show 3                  the summary of submission 3
  ./judge compare 2 3             returns and lengths of two submissions on the cases that both played
  ./judge compare 2 3 4 5         how each of 3, 4 and 5 differs from 2, with standard errors
  ./judge trace 12 --every 10     every tenth step of episode 12 as a table
  ./judge trace 12 --fields obs.0,action,next_obs.0
                                  some fields of its steps
  ./judge export 12 13            episodes 12 and 13 as npz files in notes/
  ./judge frames 12 0,50,100      pictures of episode 12 as PNG files in notes/
  ./judge diff 2                  changes in system/ since submission 2; diff 2 3 for two submissions
  ./judge restore 2               put the files of submission 2 into system/; restore 2 policy.py for one file

Exit codes: 0 done, 1 the judge refused (with a reason), 2 wrong usage, 3 the judge can't be reached,
4 the policy could not be loaded, or failed in a check
"""
PARENT = (
    "the submission that it was made from, or starter; by default the one last restored, or else the nearest that "
    "could be loaded"
)
EXPECT = "your expectation, which is recorded and shown with the results"
TO = "the directory of the files in the workspace, by default notes/"
REFUSED, USAGE, UNREACHABLE, NOT_LOADED = 1, 2, 3, 4
PRINTED = "-"
"""Value of --to with which pictures are printed."""
PROGRESS_S = 20.0
"""Seconds between two lines of progress while a submission is awaited."""
LOADING, LOADED = ("submit", "wait", "show", "check"), ("ok", "playing")
ODD_NUMBER = re.compile(r"\A([+-]?)(\.?)(?=[0-9])")
"""How a number begins that people write and JSON doesn't know: +2, .5, -.25."""
Options = argparse.Namespace


def submit(seat: Seat, options: Options) -> Answer:
    """Submit without waiting, so that nothing is lost when this program is stopped, then wait."""
    key = options.key or secrets.token_hex(16)
    parent = int(options.parent) if options.parent and options.parent.isdecimal() else options.parent
    values = settings(options.set)
    remarks = {"films": options.films, "set": values, "parent": parent, "hypothesis": options.expect}
    try:
        answer = seat.accept(",".join(options.indices), key, **remarks)
    except NoJudge:
        raise
    except Unreachable as error:
        words = [word for word in options.words if word != "--json"]
        again = " ".join(map(shlex.quote, ["./judge", *words, *([] if options.key else ["--key", key])]))
        raise Unreachable(
            f"{error}\nIt may have been charged; to ask again without a second charge: {again}"
        ) from error
    with_values = "".join(f", {name}={value}" for name, value in values.items())
    tell(f"submission {answer['submit_id']} accepted{with_values}{'' if options.no_wait else ', playing…'}")
    return answer if options.no_wait else await_submission(seat, answer["submit_id"])


def settings(words: "list[str] | None") -> "dict[str, object]":
    """Return the parameters that NAME=VALUE words set: numbers, true and false decoded, anything else as text."""
    parameters: dict[str, object] = {}
    for word in words or []:
        name, equals, text = word.partition("=")
        if not equals:
            raise NotThere(f"Invalid --set {word}: expected NAME=VALUE, such as --set speed=4.6.")
        try:
            value = json.loads(ODD_NUMBER.sub(_as_json, text))
        except ValueError:
            value = text
        parameters[name] = value if isinstance(value, bool | int | float | str) else text
    return parameters


def _as_json(start: "re.Match[str]") -> str:
    """Return the beginning of a number as JSON has it."""
    return start[1].replace("+", "") + ("0." if start[2] else "")


def check(seat: Seat, options: Options) -> Answer:
    """Construct the policy in system/ and have it act once, with some parameters set."""
    playing = [entry for entry in seat.submissions()["submissions"] if entry["status"] == "playing"]
    if playing:
        tell(f"the check waits for submission {playing[-1]['submit_id']}: {tables.progress(playing[-1])}")
    return seat.check(settings(options.set))


def await_submission(seat: Seat, number: int) -> Answer:
    """Return a submission once it is over; print its progress now and then."""
    since = time.monotonic()
    said_at = [since]

    def observe(answer: Answer) -> None:
        if time.monotonic() - said_at[0] > PROGRESS_S:
            said_at[0] = time.monotonic()
            tell(f"submission {number}: {tables.progress(answer)} after {said_at[0] - since:.0f} s")

    return seat.wait(number, observe)


def frames(seat: Seat, options: Options) -> Answer:
    """Write pictures of an episode as PNG files, or print them."""
    shown = seat.frames(options.episode, options.steps)
    if options.to == PRINTED:
        return {"frames": {str(step): b64encode(picture).decode() for step, picture in shown.items()}}
    return {"frames": pictures.write(options.to or "notes", seat.workspace, options.episode, shown)}


def tell(message: object) -> None:
    """Print a message that is not the answer."""
    print(message, file=sys.stderr)


Verb = tuple[str, Callable[[Seat, Options], Any], Callable[[Any], str]]
"""A verb's help, what it does, and its answer as text."""
VERBS: "dict[str, Verb]" = {
    "info": (
        "the remaining budget, limits, modules that can be imported",
        lambda seat, _: seat.all_info(),
        tables.nested,
    ),
    "task": ("the objective, observations, actions, reward and rules", lambda seat, _: seat.task(), str),
    "submit": ("play the policy in system/ on train cases", submit, tables.submission),
    "wait": (
        "wait for a submission to be over",
        lambda seat, options: await_submission(
            seat, seat.last_submission() if options.number is None else options.number
        ),
        tables.submission,
    ),
    "list": ("all submissions so far", lambda seat, _: seat.submissions(tell), tables.submissions),
    "show": ("one submission", lambda seat, options: seat.submission(options.number), tables.submission),
    "feedback": (
        "one file of a submission's feedback",
        lambda seat, options: seat.feedback(options.number, options.file),
        str,
    ),
    "compare": (
        "returns and lengths of two or more submissions, case by case",
        lambda seat, options: seat.compare(options.numbers),
        str,
    ),
    "trace": (
        "an episode's steps as a table",
        lambda seat, options: seat.trace(options.episode, options.every, options.fields),
        str,
    ),
    "export": (
        "episodes as npz files: observations, actions, rewards",
        lambda seat, options: seat.export(options.episodes, options.to),
        tables.nested,
    ),
    "frames": ("pictures of an episode as PNG files", frames, tables.nested),
    "check": ("construct the policy in system/ and have it act once; free", check, tables.check),
    "diff": (
        "changes between two submissions, or since one",
        lambda seat, options: seat.diff(options.first, options.second),
        str,
    ),
    "restore": (
        "put the files of a submission into system/",
        lambda seat, options: seat.restore(options.number, options.path or ""),
        tables.nested,
    ),
    "finish": ("end the run with budget left, where allowed", lambda seat, _: seat.finish(), lambda _: tables.FINISH),
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser("judge", None, HELP, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--json", action="store_true", help="print the judge's own answer")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    add = {name: verbs.add_parser(name, help=text) for name, (text, _, _) in VERBS.items()}
    for verb in add.values():
        verb.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="as above")
    add["submit"].add_argument("indices", nargs="+", help="train cases, such as 0-7,12 or 0 1 2")
    add["submit"].add_argument("--key", help="the same key again is the same submission, charged once")
    add["submit"].add_argument("--films", help="cases to film, such as 2,5")
    add["submit"].add_argument("--no-wait", action="store_true", help="return at once")
    add["submit"].add_argument("--parent", metavar="N", help=PARENT)
    add["submit"].add_argument("--expect", metavar="TEXT", help=EXPECT)
    for name in ("submit", "check"):
        text = "the value of a parameter of system/parameters.json in this submission; may be given several times"
        add[name].add_argument("--set", action="append", metavar="NAME=VALUE", help=text)
    add["feedback"].add_argument("number", type=int, help="a submission")
    add["feedback"].add_argument("file", nargs="?", default="summary.json", help="by default summary.json")
    add["wait"].add_argument("number", type=int, nargs="?", help="by default the last submission")
    add["restore"].add_argument("number", type=int, help="a submission")
    add["restore"].add_argument("path", nargs="?", help="one file or directory of it, such as policy.py")
    add["diff"].add_argument("first", type=int, help="a submission")
    add["diff"].add_argument("second", type=int, nargs="?", help="another; by default system/ as it stands")
    add["compare"].add_argument(
        "numbers", type=int, nargs="+", metavar="N", help="submissions; others against the first"
    )
    add["trace"].add_argument("episode", help="such as 12 or ep_012")
    add["trace"].add_argument("--every", type=int, default=1, metavar="K", help="every K-th step, and the last")
    add["trace"].add_argument("--fields", metavar="NAMES", help="such as t,obs.0,action,reward,next_obs.0,info.speed")
    add["export"].add_argument("episodes", nargs="+", help="such as 12 or ep_012")
    add["export"].add_argument("--to", metavar="DIR", default="notes", help=TO)
    add["frames"].add_argument("episode", help="such as 12 or ep_012")
    add["frames"].add_argument("steps", help="such as 0,50,100")
    add["frames"].add_argument("--to", metavar="DIR", help=f"{TO}; - prints them in base64")
    add["show"].add_argument("number", type=int, help="a submission")
    return top


def run(directory: str, words: "list[str]") -> int:
    """Run a command in a workspace; return the exit code."""
    options = parser().parse_args(words, Options(words=words))
    _, do, as_text = VERBS[options.verb]
    workspace = Workspace(directory)
    try:
        answer = do(Seat(workspace, lambda: found_address(workspace)), options)
        text = json.dumps(answer, indent=2) if options.json and not isinstance(answer, str) else as_text(answer)
    except SeatErrors as error:
        tell(error)
        return UNREACHABLE if isinstance(error, Unreachable) else REFUSED
    except CHANGED as error:
        tell(f"{NO_JUDGES_ANSWER} ({type(error).__name__}: {error})")
        return UNREACHABLE
    print(text)
    sys.stdout.flush()
    return 0 if options.verb not in LOADING or answer["status"] in LOADED else NOT_LOADED


def main(directory: str) -> int:
    """Run the command of this program in a workspace; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # no character ends it after the judge has answered
    try:
        return run(directory, sys.argv[1:])
    except BrokenPipeError:  # the reader of the output has left, as head does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
