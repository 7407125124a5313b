"""How far a reader walks: the source files that three things pass through, in order, from one real run of each.

The walks are a submission over HTTP, ``evopolicygym run`` and ``evopolicygym leaderboard --tables paper``. Each is done
twice, so that modules are loaded and calls alone are seen the second time. All threads of this process are traced, and
none of the processes that it starts. A *step* leads from one file into another by a call; a step that is made again, as
in a loop, counts once, and properties, which read like fields, and what is written in the calling line are no steps. A
*return* is a step into a file that was passed before. ``PYTHONPATH`` says which checkout is
walked through::

    PYTHONPATH=src python benchmarks/walks.py
    PYTHONPATH=src python benchmarks/walks.py --files
"""

import argparse
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from threading import Event
from types import CodeType, FrameType
from urllib.request import Request, urlopen

import evopolicygym
from evopolicygym.core.agent import Agent, AgentConfig, AgentEnd, JudgeEndpoint, Turn, Workspace

PACKAGE = Path(evopolicygym.__file__).parent
RUN = ["run", "acrobot", "--budget", "4", "--validation", "1", "--held-out", "1", "--split", "public", "--workers", "1"]
SUBMISSION, RUNNING, LEADERBOARD = (
    "a submission over HTTP",
    "evopolicygym run acrobot",
    "evopolicygym leaderboard --tables paper",
)


INLINE = {"<genexpr>", "<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>"}
"""Calls of what a reader sees in the line that makes it."""


class Walk:
    """The files of the package that are passed while it is going on."""

    def __init__(self) -> None:
        self.files: list[str] = []
        """In the order in which each is entered first."""
        self.steps: dict[tuple[str, str], bool] = {}
        """Each step from a file into another, and whether that one had been passed before."""
        self.is_going_on = False
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._fields = set(code_of_properties())

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Trace while the block runs."""
        self.is_going_on = True
        try:
            yield
        finally:
            self.is_going_on = False

    def see(self, frame: FrameType, event: str, _: object) -> None:
        """Take note of a call."""
        if event != "call" or not self.is_going_on or frame.f_code.co_name in INLINE or frame.f_code in self._fields:
            return
        file = self._name(frame.f_code.co_filename)
        caller = self._caller(frame)
        if not file or caller == file:
            return
        with self._lock:
            self.steps.setdefault((caller, file), file in self.files)
            if file not in self.files:
                self.files.append(file)

    @property
    def returns(self) -> int:
        """How many steps led into a file that had been passed."""
        return sum(self.steps.values())

    def _caller(self, frame: FrameType) -> str:
        """Return the nearest file of the package that the call comes from; empty where there is none."""
        above = frame.f_back
        while above:
            if file := self._name(above.f_code.co_filename):
                return file
            above = above.f_back
        return ""

    def _name(self, file: str) -> str:
        if file not in self._names:
            path = Path(file)
            self._names[file] = path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else ""
        return self._names[file]


def code_of_properties() -> Iterator[CodeType]:
    """Yield the code of all properties of the package's classes, which read like fields."""
    modules = [one for name, one in sys.modules.items() if name.startswith(PACKAGE.name)]
    classes = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    for attribute in (attribute for one in classes for attribute in vars(one).values()):
        if isinstance(attribute, property) and attribute.fget:
            yield attribute.fget.__code__


WALK = Walk()
"""What is being traced now."""


class OneSubmission:
    """An agent that submits once, over HTTP; what its own thread does is no part of the walk."""

    max_turns = 1

    def play(self, workspace: Workspace, judge: JudgeEndpoint, stop: Event) -> Turn:  # noqa: ARG002 - the contract of agents
        """Submit what lies there, for all episodes."""
        sys.setprofile(None)
        body = json.dumps({"env_instances": "0-3"}).encode()
        address = judge.address
        url = f"{address.base_url}/submit"
        request = Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - the judge's own address
        with WALK.going_on(), urlopen(request) as answer:  # noqa: S310 - as above
            answer.read()
        return Turn(AgentEnd.FINISHED, "")


def make(_: AgentConfig) -> Agent:
    """Return the agent."""
    return OneSubmission()


def program(*arguments: str) -> None:
    """Run the command line in this process, and keep what it prints."""
    from evopolicygym.cli.main import main as command_line

    sys.argv = ["evopolicygym", *arguments]
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()), suppress(SystemExit):
        command_line()


def traced(runs: Path, name: str) -> Walk:
    """Return one of the walks; what it needs has been done once before."""
    global WALK  # noqa: PLW0603 - the agent is made by its name, and finds it here
    walk = WALK = Walk()
    threading.setprofile(walk.see)
    sys.setprofile(walk.see)
    if name == SUBMISSION:
        program(*RUN, "--agent", "__main__:make", "--runs", str(runs))
    else:
        ours = ("leaderboard", str(runs), "--tables", "paper") if name == LEADERBOARD else (*RUN, "--runs", str(runs))
        with walk.going_on():
            program(*ours)
    sys.setprofile(None)
    threading.setprofile(None)
    return walk


def main() -> None:
    """Walk, and print how far."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", action="store_true", help="print the files of each walk too")
    wanted = parser.parse_args()
    print(f"{'walk':40} {'files':>6} {'returns':>8}")
    with tempfile.TemporaryDirectory() as made:
        os.environ["XDG_STATE_HOME"] = f"{made}/state"
        for name in (SUBMISSION, RUNNING, LEADERBOARD):
            traced(Path(made, "runs"), name)
            walk = traced(Path(made, "runs"), name)
            print(f"{name:40} {len(walk.files):>6} {walk.returns:>8}")
            for place, file in enumerate(walk.files, 1) if wanted.files else ():
                print(f"{place:>4} {file}")


if __name__ == "__main__":
    main()
