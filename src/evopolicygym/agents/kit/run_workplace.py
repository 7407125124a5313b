"""The workplace of a run's agent, as one that stays: what somebody else has commands executed in.

How it is used is described in ``sandbox/program/standing.py``. A program that is started once is in ``program.py``.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from evopolicygym.core.agent import AgentLimits, JudgeEndpoint, Workspace
from evopolicygym.core.places import state_directory
from evopolicygym.sandbox.base import JUDGE_PORT, Program, Serve
from evopolicygym.sandbox.levels import program_sandbox
from evopolicygym.sandbox.program.standing import StandingWorkplace

SHELL = ("bash",)
"""What commands are run by, so that it must be there."""
LIMITS = AgentLimits()


NO_OTHERS: Mapping[int, Serve] = MappingProxyType({})


def run_workplace(
    workspace: Workspace,
    endpoint: JudgeEndpoint,
    limits: AgentLimits = LIMITS,
    command: Sequence[str] = SHELL,
    others: Mapping[int, Serve] = NO_OTHERS,
) -> StandingWorkplace:
    """Return the workplace of a run, at its isolation, in which the judge answers; it is made when it is entered.

    ``command`` is a program that must be there. ``others`` answer in it besides, by their ports.

    Raises ``SandboxError`` where the isolation keeps no program in.
    """
    program = Program(
        command, workspace.directory, limits, simulators=workspace.simulators, packages=workspace.policy_packages
    )
    return StandingWorkplace(
        program_sandbox(workspace.isolation),
        program,
        {JUDGE_PORT: lambda listener: endpoint.serve(listener).environment, **others},
        [workspace.directory.parent, state_directory()],
    )
