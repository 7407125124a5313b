"""A first run: an agent improves a policy for CartPole, and the best policy is scored on hidden cases.

Start it with ``python examples/01_first_run.py``. It takes some seconds, and needs no account, no key and no GPU.
The record goes into a temporary directory, or into the one that is named as the first argument.
"""

import sys
import tempfile

import evopolicygym

runs = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()

# The tuner is a built-in agent: it searches the weights of a linear policy. It may spend 64 episodes.
run = evopolicygym.run(
    "cartpole",
    agent="tuner",
    budget=64,  # train episodes, of which the agent sees everything
    validation=4,  # hidden cases that pick the best submission
    held_out=8,  # hidden cases that score it
    split="public",  # the same cases for everyone; the default is private ones
    runs=runs,
)

# Every submission is a policy that was played on some train cases.
for submission in run.submissions:
    chosen = "  selected" if submission["selected"] else ""
    print(
        f"submission {submission['submission']}: {submission['episodes']} episodes, "
        f"mean return {submission['train_mean']:.1f}{chosen}"
    )

print(f"score {run.score:.1f} ± {run.standard_error:.1f} (standard error) over {len(run.held_out_returns)} cases")
print(f"record: {run.path}")

# The record can be checked at any time, by anyone: hashes, budget, selection and score.
print(f"verified: {evopolicygym.verify(run.path).ok}")
