"""A judge that dies: plays a run and kills itself, and all that it started, after its n-th event.

``python dying.py RUNS N`` plays a real run on cartpole, ``python dying.py --toy ROOT N`` the fake's.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from evopolicygym.agents.builtin.scripted import ScriptedAgent, Submit, Write
from evopolicygym.core.errors import RequestRefused
from evopolicygym.core.event import Event
from evopolicygym.core.run import RunState, Stage
from evopolicygym.core.submission import parse_env_instances
from evopolicygym.judge.request import SubmitRequest
from evopolicygym.judge.rollouts import finalize
from evopolicygym.judge.session import JudgeSession
from evopolicygym.records.experiment import Experiment
from evopolicygym.records.journal import read
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.writer import RunWriter
from evopolicygym.runs import run as runs
from evopolicygym.runs.run import play
from fakes import PATIENCE_S, SECRET, FakeExecutor, guard_beside, open_run, opening, task
from whole_runs import config

POLICIES = (("1", "0-2"), ("init_error", "0"), ("3", "0-3"))
FILMS = ([1], None, [0, 3])
"""What is filmed of each, where films are made."""


class Death:
    """Comes at the n-th event."""

    def __init__(self, count: int) -> None:
        self._left = count

    def __call__(self, _event: Event, _state: RunState) -> None:
        """Count an event."""
        self._left -= 1
        if not self._left:
            os.killpg(0, signal.SIGKILL)


def spend(session: JudgeSession, system: Path, refused: Callable[[RequestRefused], None] | None = None) -> None:
    """Submit what has not been submitted, with keys, so that nothing is charged twice; ask again where it's refused."""
    for place, (policy, asked) in enumerate(POLICIES):
        (system / "policy.py").write_text(policy, encoding="utf-8")
        films = FILMS[place] if session.state.opened.task.films else None
        request = SubmitRequest(asked, key=f"step {place}", films=films)
        try:
            submission = session.accept(request)
        except RequestRefused as refusal:
            if refused is None:
                raise
            refused(refusal)
            submission = session.accept(request)
        session.published(submission.index).result(PATIENCE_S)
    session.close()


def play_toy(root: Path, count: int = -1) -> None:
    """Play the fake's run to its end, if death doesn't come first."""
    with open_run(root, {"films": 3}) as run:
        run.writer.listen(Death(count))
        spend(run.session, run.paths.system)
        finalize(run.rollouts)


def take_up_toy(
    root: Path, executor: FakeExecutor | None = None, refused: Callable[[RequestRefused], None] | None = None
) -> None:
    """Play the fake's run on to its end; a run whose opening never got on disk begins again."""
    journal = RunPaths(root).journal
    begun = journal.exists() and bool(read(journal).events)
    with open_run(root, None if begun else {"films": 3}, executor) as run:
        if run.session.state.stage is Stage.OPEN:
            spend(run.session, run.paths.system, refused)
        finalize(run.rollouts)


def play_whole_toy(root: Path) -> None:
    """Play the fake's run, or play it on, as a program does: with an agent behind the judge's door."""
    steps = [
        step
        for policy, asked in POLICIES
        for step in (Write("policy.py", policy), Submit(parse_env_instances(asked, 16, 8)))
    ]
    paths = RunPaths(root)
    for directory in (paths.system, paths.feedback, paths.staging, paths.checkpoints):
        directory.mkdir(parents=True, exist_ok=True)
    begun = paths.journal.exists() and bool(read(paths.journal).events)
    with RunWriter(root, None if begun else opening(task=task()), guard_beside(root)) as writer:
        if writer.state.stage is not Stage.FINISHED:
            runs._play_to_end(writer, FakeExecutor(), Experiment("experiment", SECRET), ScriptedAgent(steps))
        writer.write_document()


if __name__ == "__main__":
    os.setpgid(0, 0)
    if sys.argv[1] == "--toy":
        play_toy(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        play(config(Path(sys.argv[1])), lambda _paths, _state: None, Death(int(sys.argv[2])))
