"""An agent that changes the best policy so far a little, and keeps the change if it is better on the same cases."""

import random

from evopolicygym.agents.base import About, refuse_choices
from evopolicygym.agents.kit.evaluator import Evaluator, SearchAgent
from evopolicygym.core.agent import Agent, AgentConfig

ABOUT = About("climbs: changes the best linear policy a little, and keeps what is better")
CASES = range(2)
"""The train cases that each candidate plays."""
STEPS = (1.0, 0.5, 0.25)
"""Scales of the changes; they repeat."""
POLICY = '''"""A linear policy for Discrete and Box actions: a sum of random matrices, by their seeds and scales."""

import numpy as np

STEPS = {steps}


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.space, self.discrete = action_space, action_space["type"] == "Discrete"
        self.actions = action_space["n"] if self.discrete else int(np.prod(action_space["shape"]))

    def reset(self, episode_index):
        self.weights = None

    def act(self, obs):
        features = np.append(np.ravel(np.asarray(obs, float)), 1.0)
        if self.weights is None:
            shape = self.actions, features.size
            self.weights = sum(scale * np.random.default_rng(seed).normal(size=shape) for seed, scale in STEPS)
        scores = self.weights @ features
        if self.discrete:
            return self.space["start"] + int(np.argmax(scores))
        return np.tanh(scores).reshape(self.space["shape"])
'''


def search(evaluator: Evaluator, seed: int) -> None:
    """Spend the budget; ``evaluate`` raises ``BudgetSpent`` when nothing is left, which ends the search."""
    draw = random.Random(seed)
    steps: list[tuple[int, float]] = []
    best = float("-inf")
    while True:
        candidate = [*steps, (draw.randrange(2**32), STEPS[len(steps) % len(STEPS)])]
        evaluation = evaluator.evaluate(POLICY.format(steps=candidate), cases=CASES)
        if evaluation.mean > best:
            steps, best = candidate, evaluation.mean


def make(config: AgentConfig) -> Agent:
    """Return the agent; ``config`` has its options and its model, of which it has none."""
    refuse_choices(config)
    return SearchAgent(search)
