"""A first run: an agent improves a policy for CartPole, and the best policy is scored on hidden cases.

Run it with ``python examples/01_first_run.py``. It takes some seconds and needs no account, key or GPU. The run
directory is created in a temporary directory, or in the directory of the first argument.
"""

import sys
import tempfile

import evopolicygym

runs = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()

# The tuner is a built-in agent that optimises the weights of a linear policy. It may spend 64 episodes.
run = evopolicygym.run(
    "cartpole",
    agent="tuner",
    budget=64,  # train episodes, with feedback for the agent
    validation=4,  # hidden cases that select the best submission
    held_out=8,  # hidden cases that score it
    split="public",  # published cases; the default is private ones
    runs=runs,
)

# Each submission is a policy with the train cases that it played.
for submission in run.submissions:
    chosen = "  selected" if submission["is_selected"] else ""
    print(
        f"submission {submission['submission']}: {submission['episodes']} episodes, "
        f"mean return {submission['train_mean']:.1f}{chosen}"
    )

print(f"score {run.score:.1f} ± {run.standard_error:.1f} (standard error) over {len(run.held_out_returns)} cases")
print(f"record: {run.path}")

# Anyone can verify a run directory at any time: hashes, budget, selection and score.
print(f"verified: {evopolicygym.verify(run.path).ok}")
