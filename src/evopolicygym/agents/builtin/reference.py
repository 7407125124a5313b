"""The agent ``reference``: it copies the environment's reference policy to ``system/`` and submits it once.

This measures a reference by the rules of a run. The policies are in ``references/``.
"""

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from threading import Event

from evopolicygym.agents.base import About, refuse_choices
from evopolicygym.agents.kit import reference_policies
from evopolicygym.agents.kit.judge_client import JudgeClient, submit_once, turn
from evopolicygym.core.agent import Agent, AgentConfig, JudgeEndpoint, Turn, Workspace
from evopolicygym.core.beneath import replace_content
from evopolicygym.core.interface import Interface

ABOUT = About("plays the hand-written policy of the environment")
KEY = "reference"
POLICY, STANDARD_POLICY, TRANSFORMS, KNOWN = "policy.py", "standard_policy.py", "transforms.py", "interface.json"
ADAPTER = '''\
"""Plays the standard policy through the run's interface."""

import json
from pathlib import Path

from standard_policy import Policy as StandardPolicy
from transforms import bind

KNOWN = json.loads(Path(__file__).with_name("interface.json").read_text())


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        seen, done = KNOWN["observation"], KNOWN["action"]
        self._standard_observation = bind(seen["transform"], seen["schema"], inverse=True)
        self._answer = bind(done["transform"], done["schema"], lenient=True)
        spaces = {"obs_space": seen["schema"], "action_space": done["schema"]}
        meta = {**env_meta, **spaces, "env": KNOWN["env"]}
        if KNOWN["reward_components"]:
            meta["reward_components"] = KNOWN["reward_components"]
        self._policy = StandardPolicy(seen["schema"], done["schema"], meta)

    def reset(self, episode_index):
        self._policy.reset(episode_index)

    def act(self, obs):
        return self._answer(self._policy.act(self._standard_observation(obs)))
'''
"""The policy file of a reference that plays through an interface; it imports modules of the same directory."""


class ReferenceAgent:
    """Submits the reference on as many train cases as one submission allows."""

    max_turns = 1

    def __init__(self) -> None:
        self._environment = ""
        self._interface: Interface = {}

    def know(self, environment: str, interface: Interface) -> None:
        """Take the name of the environment, and the interface through which the reference plays."""
        self._environment, self._interface = environment, interface

    def refuse(self, environment: str) -> None:
        """Raise ``UsageError`` if the environment has no reference."""
        reference_policies.files_of(environment)

    def play(self, workspace: Workspace, endpoint: JudgeEndpoint, stop: Event) -> Turn:
        """Play; raise ``UsageError`` if the environment has no reference."""
        return turn(lambda judge: self._submit(workspace.system, judge), endpoint, stop)

    def _submit(self, system: Path, judge: JudgeClient) -> str:
        environment = self._environment or str(judge.info().env_meta["env"])
        write_reference(environment, system, self._interface)
        submit_once(judge, KEY)
        return f"the reference policy of {environment}, submitted once"


def make(config: AgentConfig) -> Agent:
    """Return the agent."""
    refuse_choices(config)
    return ReferenceAgent()


def write_reference(environment: str, system: Path, interface: Interface | None = None) -> None:
    """Replace a directory's content by an environment's reference; raise ``UsageError`` if there is none.

    It plays through the ``interface``, if there is one.
    """
    project = reference_policies.files_of(environment)
    replace_content(system, play_through(project, environment, interface) if interface else project)


def play_through(project: Mapping[str, bytes], environment: str, interface: Interface) -> dict[str, bytes]:
    """Return a standard policy's files with an adapter that plays it through an interface."""
    parts = {side: interface[side] for side in ("observation", "action")}
    known = {"env": environment, "reward_components": interface["reward_components"], **parts}
    return {
        **{name: content for name, content in project.items() if name != POLICY},
        STANDARD_POLICY: project[POLICY],
        TRANSFORMS: files("evopolicygym.core").joinpath("transforms.py").read_bytes(),
        KNOWN: json.dumps(known).encode(),
        POLICY: ADAPTER.encode(),
    }
