"""Two evolutions on cartpole, played by a script that makes the edits which were once called what they weren't.

Each policy balances for some steps and then lets the pole fall, so that what it is worth is known: about ten steps more
than it balances for, on every case.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evopolicygym.core.agent import AgentConfig
from evopolicygym.core.cases import SplitSource
from evopolicygym.core.task import BudgetRule, Task
from evopolicygym.records.reader import RunRecord, read_run
from evopolicygym.runs.config import RunConfig
from evopolicygym.specs import catalog
from whole_runs import played

VALIDATION = 16
IDLE = """
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 0
"""
LEANING = '''
class Policy:
    """Pushes to where the pole leans, for a while."""

    def __init__(self, obs_space, action_space, env_meta):
        self.steps = 0

    def reset(self, episode_index):
        self.steps = 0

    def act(self, obs):
        self.steps += 1
        if self.steps > 20:
            return 0
        return int(obs[2] > 0)
'''
FALLING = LEANING.replace("20", "30").replace("obs[2] > 0", "obs[2] + 0.3 * obs[3] > 0")
"""Sees how fast the pole falls, too."""
AT_EDGE = FALLING.replace(
    "        self.steps += 1\n", "        self.steps += 1\n        if obs[0] > 0:\n            return 0\n"
)
"""Worse: a branch that pushes the wrong way."""
TUNED = FALLING.replace("30", "45").replace("0.3", "0.2")
"""The falling one with two constants changed."""
RENAMED = (
    TUNED.replace("self.steps", "self.played")
    .replace("(self, obs):", "(self, observation):")
    .replace("obs[", "observation[")
)
HELPED = (
    TUNED.replace("45", "60").replace("int(obs[2] + 0.2 * obs[3] > 0)", "int(falling(obs) > 0)")
    + '''

def falling(obs):
    """Return where the pole is going to be."""
    return obs[2] + 0.2 * obs[3]
'''
)
UNCLOSED = HELPED.replace("int(falling(obs) > 0)", "int(falling(obs > 0)")
MIXED = HELPED.replace(
    "        self.steps = 0\n\n    def act",
    "        self.steps = 0\n        self.idle = episode_index % 2 == 1\n\n    def act",
).replace("        if self.steps > 60:", "        if self.idle or self.steps > 60:")
"""Plays in every second episode as the idle one."""
EVOLUTION: Sequence[tuple[str, str]] = (
    ("idle", IDLE), ("leaning", LEANING), ("falling", FALLING), ("at the edge", AT_EDGE), ("two constants", TUNED),
    ("unclosed", UNCLOSED), ("closed", HELPED), ("back", TUNED), ("renamed", RENAMED), ("mixed", MIXED),
    ("mixed again", MIXED),
)  # fmt: skip
"""What is submitted, two episodes each, in this order."""
BASE = FALLING.replace("30", "46")
TWO_STEPS = BASE.replace("46", "46 + self.more").replace(
    "        self.steps += 1\n",
    "        if not self.steps:\n            self.more = int(obs[3] > 0.034)\n        self.steps += 1\n",
)
"""Balances for a step more on some cases: two steps over 16 of them."""
SMALL: Sequence[tuple[str, str]] = (("base", BASE), ("two steps", TWO_STEPS))


def evolved(
    runs: Path, script: Sequence[tuple[str, str]], changes: Mapping[int, Mapping[str, Any]] | None = None
) -> RunRecord:
    """Play an evolution to its end and return its record; ``changes`` are what single submissions say besides."""
    steps: list[Mapping[str, Any]] = []
    for at, (_, text) in enumerate(script):
        steps += [{"write": "policy.py", "content": text}, {"submit": [0, 1], **(changes or {}).get(at, {})}]
    task = Task(catalog.load("cartpole"), BudgetRule(2 * len(script)), validation_cases=VALIDATION, held_out_cases=2)
    agent = AgentConfig("scripted", options={"steps": steps})
    return read_run(
        played(RunConfig(task, agent, SplitSource.PUBLIC, runs=runs, workers=2, isolation="none")).paths.root
    )
