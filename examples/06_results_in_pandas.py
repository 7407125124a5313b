"""Results as pandas tables: runs, submissions and episodes, and a leaderboard.

Run it with ``python examples/06_results_in_pandas.py``. It plays two short runs first. pandas comes with the extra
``core16``; polars takes the same lists.
"""

import sys
import tempfile

import pandas as pd

import evopolicygym

directory = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
for agent in ("tuner", "random"):
    evopolicygym.run("cartpole", agent, budget=16, validation=2, held_out=4, split="public", runs=directory)

# All runs below a directory: three tables that join on the column ``run_id``.
loaded = evopolicygym.load_runs(directory)
runs = pd.DataFrame(loaded.runs)
episodes = pd.DataFrame(loaded.episodes)
print(runs[["agent", "score", "score_standard_error", "submissions", "spent"]].to_string(index=False))

joined = episodes.merge(runs[["run_id", "agent"]], on="run_id")
print(joined.groupby(["agent", "split"])["episode_return"].agg(["count", "mean"]).round(1))

# One run: the best train mean by episodes spent.
submissions = pd.DataFrame(
    evopolicygym.load_run(runs.loc[runs["agent"] == "tuner", "run_id"].item(), directory).submissions
)
submissions["spent"] = submissions["episodes"].cumsum()
submissions["best so far"] = submissions["train_mean"].cummax()
print(submissions[["spent", "train_mean", "best so far"]].round(1).to_string(index=False))

# Rows of a leaderboard are records too; normalised scores are 1 for the best agent and 0 for random play.
board = pd.DataFrame(evopolicygym.leaderboard(directory).records)
print(board.to_string(index=False))
