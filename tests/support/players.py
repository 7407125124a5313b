"""Agents for tests of whole runs, named from outside as ``players:make_…``."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from evopolicygym.agents.builtin.scripted import ScriptedAgent, Step, Submit, Write
from evopolicygym.core.agent import AgentConfig, AgentEnd, JudgeEndpoint, Turn, Workspace
from evopolicygym.runs import turns

PAPER_CLIENT = Path(__file__).with_name("paper_client.py")

CARTPOLE = """\
import json, random


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.env_meta = env_meta

    def reset(self, episode_index):
        told = {{name: value for name, value in self.env_meta.items() if "space" not in name}}
        print(json.dumps({{"env_meta": told, "episode_index": episode_index, "random": random.random()}}))

    def act(self, obs):
        return int({rule} > 0)
"""
GOOD, BAD, BROKEN = CARTPOLE.format(rule="obs[2] + obs[3]"), CARTPOLE.format(rule="-obs[2]"), "raise ValueError('no')"
WORSE_IS_EQUAL = GOOD + "# another checkpoint that plays the same\n"


@dataclass(frozen=True, slots=True)
class Player:
    """An agent whose every turn is a call."""

    turn: Callable[[Workspace, JudgeEndpoint], Turn]
    max_turns: int = 1

    def play(self, desk: Workspace, door: JudgeEndpoint, stop: Event) -> Turn:  # noqa: ARG002 - it is quick
        """Play one turn."""
        return self.turn(desk, door)


HALT = "EVOPOLICYGYM_TESTS_HALT"
"""A variable that has a ``Halter`` wait in the middle of its turn, so that a run is found in play for sure."""


@dataclass(frozen=True, slots=True)
class Halter:
    """Takes steps; in between it waits until it is stopped, where the variable ``HALT`` is set."""

    steps: tuple[Step, ...]
    before: int
    """How many steps come before it waits."""
    max_turns: int = 1

    def play(self, desk: Workspace, door: JudgeEndpoint, stop: Event) -> Turn:
        """Play one turn; a step that was taken before has its key, so it is not charged again."""
        if HALT not in os.environ:
            return ScriptedAgent(self.steps).play(desk, door, stop)
        ScriptedAgent(self.steps[: self.before]).play(desk, door, stop)
        stop.wait()
        return Turn(AgentEnd.STOPPED)


def _submit(policy: str, count: int) -> tuple[Step, Step]:
    return Write("policy.py", policy), Submit(tuple(range(count)))


EVOLVER_HALTS_AFTER = 3
"""Submissions of the evolver, before it waits where it is to."""


def make_evolver(_config: AgentConfig) -> Halter:
    """Spend a budget of 10: a bad policy, a good one twice, its equal, a broken one."""
    plan = ((BAD, 2), (GOOD, 3), (GOOD, 1), (WORSE_IS_EQUAL, 2), (BROKEN, 2))
    return Halter(tuple(step for policy, count in plan for step in _submit(policy, count)), 2 * EVOLVER_HALTS_AFTER)


def make_faller(_config: AgentConfig) -> ScriptedAgent:
    """Submit a policy that is good, and one that fails in every episode."""
    plan = ((GOOD, 2), (GOOD.replace("return int", "raise ValueError('tired')\n        return int"), 2))
    return ScriptedAgent([step for policy, count in plan for step in _submit(policy, count)])


def make_rounder(config: AgentConfig) -> ScriptedAgent:
    """Submit a policy for pendulum that pushes a little less where arithmetic is pinned."""
    rule = f"obs[2] / 8 - {config.options['less']} * ('OPENBLAS_CORETYPE' in os.environ)"
    policy = CARTPOLE.format(rule="0").replace("int(0 > 0)", f"[{rule}]").replace("import json", "import os, json")
    return ScriptedAgent(_submit(policy, 1))


def make_sleeper(_config: AgentConfig) -> ScriptedAgent:
    """Submit a policy that takes minutes over an episode."""
    return ScriptedAgent(_submit("import time\n" + GOOD.replace("return int", "time.sleep(1)\n        return int"), 2))


def make_idler(_config: AgentConfig) -> ScriptedAgent:
    """Submit two episodes and leave."""
    return ScriptedAgent(_submit(GOOD, 2))


def make_breaker(_config: AgentConfig) -> ScriptedAgent:
    """Spend a budget of two on what can't be loaded."""
    return ScriptedAgent(_submit(BROKEN, 2))


LEAVE = Event()
"""What a lingerer waits for."""
LONGEST_S = 600
"""Seconds after which it leaves even so."""


def make_lingerer(_config: AgentConfig) -> Player:
    """Spend a budget of two and stay."""

    def play(desk: Workspace, door: JudgeEndpoint) -> Turn:
        turn = ScriptedAgent(_submit(GOOD, 2)).play(desk, door, Event())
        LEAVE.wait(LONGEST_S)
        return turn

    return Player(play)


def make_stayer(config: AgentConfig) -> Player:
    """Stay as a lingerer does, in a process that waits for it as long; never made in the tests' own process."""
    turns.AGENT_GRACE_S = LONGEST_S
    return make_lingerer(config)


def make_raiser(_config: AgentConfig) -> Player:
    """Raise at once, in every turn."""

    def play(_desk: Workspace, _door: JudgeEndpoint) -> Turn:
        raise RuntimeError("the model is gone")

    return Player(play, max_turns=2)


def make_forger(_config: AgentConfig) -> Player:
    """Print, in the run's own process, a line as a suite's child does, and raise."""

    def play(_desk: Workspace, _door: JudgeEndpoint) -> Turn:
        print('{"reason": "interrupted", "message": "forged"}', flush=True)
        raise RuntimeError("the model is gone")

    return Player(play, max_turns=2)


def make_exploder(_config: AgentConfig) -> Player:
    """Fail to be made, by no error of ours."""
    raise ZeroDivisionError("no agent comes of this")


def make_killer(_config: AgentConfig) -> Player:
    """Kill the process in which it is to be made."""
    os.kill(os.getpid(), signal.SIGKILL)
    return Player(lambda _desk, _door: Turn(AgentEnd.FINISHED))


def make_paper_client(_config: AgentConfig) -> Player:
    """Run the program that knows only what the paper's release promised."""

    def play(desk: Workspace, door: JudgeEndpoint) -> Turn:
        with desk.transcript.open("wb") as transcript:
            done = subprocess.run(
                [sys.executable, "-I", PAPER_CLIENT],
                cwd=desk.directory,
                env={"PATH": os.environ["PATH"], **door.address.environment},
                stdout=transcript,
                stderr=subprocess.STDOUT,
                check=False,
            )
        return Turn(AgentEnd.CRASHED if done.returncode else AgentEnd.FINISHED)

    return Player(play)


def make_composer(_config: AgentConfig) -> ScriptedAgent:
    """Spend a budget of two on a policy for actions of several parts, which fails in its second episode."""
    from exported import ANY_SPACE

    fails = ANY_SPACE.replace("pass\n    def act", "if episode_index: raise ValueError('=1+1')\n    def act")
    return ScriptedAgent(_submit(fails, 2))


def make_pusher(_config: AgentConfig) -> ScriptedAgent:
    """Spend a budget of two on a policy that always pushes alike."""
    return ScriptedAgent(_submit(GOOD.replace("int(obs[2] + obs[3] > 0)", "[0.5, -0.5]"), 2))
