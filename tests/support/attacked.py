"""A real run that attacks are submitted to: a judge over HTTP, real sandboxes, and the eye of a test.

It is played on cartpole where no other environment is named. The test is the agent: it writes the policy project and
asks the judge. Nothing is validated at the end, so a run takes as many attacks as a test likes; whole runs are in
``whole_runs.py``.
"""

import json
import os
import re
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from evopolicygym.agents.kit.session import FunctionAgent
from evopolicygym.checks import inspection
from evopolicygym.checks.sandbox import HONEST, LIMITS, Attack, Decoys, attack, find_marks, plant_decoys
from evopolicygym.core.cases import CaseSet
from evopolicygym.core.errors import SandboxError
from evopolicygym.core.rollout import Episode
from evopolicygym.core.task import EnvironmentSpec, Limits
from evopolicygym.judge.rollouts import Rollouts
from evopolicygym.judge.server import JudgeServer
from evopolicygym.judge.session import JudgeSession
from evopolicygym.records import experiment
from evopolicygym.records.paths import RunPaths
from evopolicygym.records.writer import RunWriter
from evopolicygym.rollout.checkpoint import capture
from evopolicygym.rollout.executor import ExecutorConfig
from evopolicygym.rollout.executors.local import LocalExecutor
from evopolicygym.runs import run, workspace
from evopolicygym.sandbox.levels import choose
from fakes import PATIENCE_S
from whole_runs import all_seeds, config, numbers, state_kept_in

LEAK_LINE = re.compile(r"^LEAK.*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SubmissionOutcome:
    """What came of one submission, as the agent is told and as the journal has it."""

    index: int
    summary: dict[str, Any]
    charged: int
    """How much of the budget is gone for it."""
    endings: tuple[str, ...]
    """``ok`` or the failure's reason, of each episode that was played."""
    episodes: tuple[Episode, ...]
    files: dict[str, bytes]
    """Its feedback by path, with every other file below ``feedback/`` that came to be meanwhile."""

    def text(self, name: str, local: int = 0) -> str:
        """Return a file of one episode."""
        names = sorted(path for path in self.files if path.endswith("/" + name))
        return self.files[names[local]].decode()


@dataclass
class AttackedRun:
    """An open run."""

    session: JudgeSession
    door: JudgeServer
    paths: RunPaths
    decoys: Decoys
    cases: CaseSet
    outcomes: dict[str, SubmissionOutcome] = field(default_factory=dict)
    """What came of each attack that was held, by its id."""
    _processes: int = 0
    """How many there are below this one between attacks."""
    _marks: set[str] = field(default_factory=find_marks)
    """What was left on this machine before."""

    def ask(self, path: str, body: object = None) -> Any:
        """Ask the judge."""
        url, data = self.door.address.base_url + path, None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(url, data, timeout=PATIENCE_S) as answer:  # noqa: S310 - http
            return json.loads(answer.read())

    def submit(self, source: str, episodes: int, **beside: str) -> SubmissionOutcome:
        """Submit a policy and wait for its feedback; the judge is asked meanwhile, and must answer."""
        for path in self.paths.system.iterdir():
            path.unlink()
        for name, content in {"policy.py": source, **beside}.items():
            (self.paths.system / name).write_text(content)
        self.decoys.write_addresses(self.paths.system)
        before, files = self.session.state.remaining, set(self._feedback())
        asked = self.ask("/submit", {"env_instances": list(range(episodes)), "wait": False})
        index = asked["submit_id"]
        if asked["status"] == "playing":
            self.ask(f"/submissions/{index}")
            self.session.published(index).result(PATIENCE_S)
            asked = self.ask(f"/submissions/{index}")
        played = tuple(one for one in self.session.state.submissions[index].episodes if one)
        return SubmissionOutcome(
            index,
            asked["summary"],
            before - self.session.state.remaining,
            tuple(one.failure.reason.value if one.failure else "ok" for one in played),
            played,
            {name: path.read_bytes() for name, path in self._feedback().items() if name not in files},
        )

    def honest(self) -> SubmissionOutcome:
        """Submit an honest policy for one episode."""
        return self.submit(attack(HONEST).source, 1)

    def assert_sealed(self, came: SubmissionOutcome) -> None:
        """Assert that nothing the agent can read holds a leak, a hidden seed, the run's place or its token."""
        texts = {name: content.decode("utf-8", "replace") for name, content in came.files.items()}
        words = {self.door.address.base_url.rpartition("/")[2]}
        if self.session.state.opened.isolation == "bubblewrap":  # the only level at which places have other names
            words.add(str(self.paths.root))

        assert {name: LEAK_LINE.findall(text) for name, text in texts.items() if LEAK_LINE.search(text)} == {}
        assert [name for name, text in texts.items() if numbers(text) & all_seeds(self.cases)] == []
        assert [name for name, text in texts.items() if any(word in text for word in words)] == []
        assert self.decoys.reached_sockets() == []

    def assert_clean(self) -> None:
        """Assert that no process of a policy is left, and no file or IPC object outside."""
        assert inspection.left_beyond(self._processes) == 0
        assert find_marks() - self._marks == set()
        assert [path for path in self.paths.root.rglob("core*") if path.is_file()] == []

    def assert_held(self, attack: Attack) -> SubmissionOutcome:
        """Submit an attack and assert its whole safe outcome; return what came of it for what is more."""
        charges = len(self.session.state.submissions)
        came = self.submit(attack.source, attack.episodes)

        assert (came.summary["status"], came.charged) == (attack.submission, attack.episodes)
        assert len(self.session.state.submissions) == charges + 1
        assert set(came.endings) <= attack.endings, [one.failure for one in came.episodes]
        assert len(came.endings) == (attack.episodes if attack.submission == "ok" else 0)
        self.assert_sealed(came)
        self.assert_clean()
        self.outcomes[attack.id] = came
        after = self.honest()
        assert (after.summary["status"], after.endings, after.charged) == ("ok", ("ok",), 1)
        return came

    def _feedback(self) -> dict[str, Path]:
        return {
            path.relative_to(self.paths.feedback).as_posix(): path
            for path in self.paths.feedback.rglob("*")
            if path.is_file()
        }


@contextmanager
def attacked_run(
    level: str, root: Path, limits: Limits = LIMITS, environment: EnvironmentSpec | None = None
) -> Iterator[AttackedRun]:
    """Open a run, on cartpole where no other is given; skip the test where its level can't work here."""
    try:
        choose(level)
    except SandboxError as error:
        pytest.skip(str(error))
    plain = config(root / "runs", budget=1000)
    played = environment or plain.task.environment
    plain = replace(plain, task=replace(plain.task, limits=limits, environment=played))
    with state_kept_in(root / "state"), inspection.orphans_adopted(), ExitStack() as stack:
        owner = experiment.begin(plain.runs, plain.experiment)
        paths = RunPaths(root / "run")
        workspace.create_workspace(paths)
        spec = plain.task.environment
        executor = stack.enter_context(
            LocalExecutor(ExecutorConfig(spec, limits, level, paths.workers, paths.simulator_log, 1))
        )
        opening = run._build_opened_event(plain, FunctionAgent(print), owner, "attacked_run", executor.info, None, None)
        writer = stack.enter_context(RunWriter(paths.root, opening))
        rollouts = Rollouts(writer, executor, run.job_builder(writer.state, owner))
        session = stack.enter_context(
            JudgeSession(rollouts, lambda settings: capture(paths.system, paths.checkpoints, limits, settings=settings))
        )
        door = stack.enter_context(JudgeServer(session))
        told = {"directory": str(paths.root), "file": str(paths.journal), "url": door.address.base_url}
        decoys = stack.enter_context(plant_decoys(root, **told))
        open_run = AttackedRun(session, door, paths, decoys, owner.cases(spec.name, opening.split))
        open_run.honest()
        open_run._processes = len(inspection.descendants(os.getpid()))
        yield open_run
