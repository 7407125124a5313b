"""An optimiser as an agent: hill climbing over four weights, with the run as its evaluator.

Run it with ``python examples/07_optimiser.py``. ``Session.evaluator`` takes a policy's source and train cases, and
returns the episodes' returns. It raises ``BudgetSpent`` when too few episodes are left, which ends the search.
"""

import random
import sys
import tempfile
from contextlib import suppress

import evopolicygym
from evopolicygym.agents.kit.evaluator import BudgetSpent

POLICY = """
class Policy:
    def __init__(self, obs_space, action_space, env_meta): ...
    def reset(self, episode_index): ...
    def act(self, obs):
        return int(sum(weight * value for weight, value in zip({weights}, obs)) > 0)
"""
CASES = range(2)
"""Every candidate plays the same train cases, so that their returns are comparable."""


def hill_climbing(session: evopolicygym.Session) -> str:
    """Mutate the best weights while there are episodes; spend the rest on the best policy."""
    evaluator, draw = session.evaluator, random.Random(session.seed)
    best, best_mean = [0.0] * 4, float("-inf")
    with suppress(BudgetSpent):
        while True:
            weights = [weight + draw.gauss(0, 1) for weight in best]
            evaluation = evaluator.evaluate(POLICY.format(weights=weights), CASES)
            if evaluation.mean > best_mean:
                best, best_mean = weights, evaluation.mean
                print(f"candidate {evaluator.evaluations}: mean return {best_mean:.1f}")
    evaluator.spend_rest()
    return f"{evaluator.evaluations} candidates"


runs = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
run = evopolicygym.run(
    "cartpole", agent=hill_climbing, budget=30, validation=4, held_out=8, split="public", seed=5, runs=runs
)
print(f"{len(run.submissions)} candidates, the best scores {run.score:.1f} on hidden cases")
