"""Agents that break their contract, one way each, for the check of agents: ``misbehaving:make_…``."""

import os
import subprocess
from pathlib import Path
from threading import Event

from evopolicygym.agents.builtin.scripted import ScriptedAgent, Submit
from evopolicygym.core.agent import AgentConfig, AgentEnd, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.directories import state_directory
from players import Player

BUDGET = 24


def _spend(desk: Workspace, door: JudgeEndpoint) -> Turn:
    return ScriptedAgent([Submit((0, 1)), Submit(tuple(range(2, BUDGET)))]).play(desk, door, Event())


def make_litterer(_config: AgentConfig) -> Player:
    """Leave a process behind."""

    def play(desk: Workspace, door: JudgeEndpoint) -> Turn:
        subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
        return _spend(desk, door)

    return Player(play)


def make_waiter(_config: AgentConfig) -> Player:
    """Submit nothing, and stay."""

    def play(_desk: Workspace, _door: JudgeEndpoint) -> Turn:
        Event().wait(20)
        return Turn(AgentEnd.FINISHED)

    return Player(play)


def make_snoop(_config: AgentConfig) -> Player:
    """Take what is hidden along."""

    def play(desk: Workspace, door: JudgeEndpoint) -> Turn:
        hidden = [path.read_text() for path in state_directory().rglob("*") if path.is_file()]
        (desk.directory / "found.txt").write_text("\n".join(hidden))
        return _spend(desk, door)

    return Player(play)


def make_talker(_config: AgentConfig) -> Player:
    """Write the environment down."""

    def play(desk: Workspace, door: JudgeEndpoint) -> Turn:
        (desk.directory / "found.txt").write_bytes(Path("/proc/self/environ").read_bytes())
        return _spend(desk, door)

    return Player(play)


def make_exit(_config: AgentConfig) -> Player:
    """Take the whole process along."""

    def play(_desk: Workspace, _door: JudgeEndpoint) -> Turn:
        os._exit(7)

    return Player(play)
