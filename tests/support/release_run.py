"""A small run directory in the layout of the paper's release, whose numbers are known by hand."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MODEL, TASK, RUN = "coder", "cartpole", "smoke-1"
HELD_OUT = (10.0, 20.0, 30.0, 40.0)
"""Their mean is 25."""
TRAIN = ((3.0, 5.0), (7.0, 9.0))
"""Returns of the episodes of two submissions; each step's reward is 1."""
BUDGET = 4
NORMALISED = 0.5
"""A score of the release's own scale, which no view may show as a return."""
POLICY = """class Policy:
    def __init__(self, obs_space, action_space, env_meta): pass
    def reset(self, episode_index): pass
    def act(self, obs): return int(obs[2] + {gain} * obs[3] > 0)
"""
START, END = "2026-11-25T23:32:09.034Z", "2026-11-25T23:33:09.034Z"


def write_release(below: Path, run: str = RUN, model: str = MODEL) -> Path:
    """Write a finished run below a directory and return its own directory."""
    root = below / model / TASK / run
    used = 0
    for index, returns in enumerate(TRAIN):
        write_submission(root, index, returns, used)
        used += len(returns)
    (root / "workspace" / "system").mkdir(parents=True)
    (root / "logs").mkdir()
    (root / "logs" / "harness.log").write_text("")
    state: dict[str, Any] = {
        "budget": {"limit": BUDGET, "used": used},
        "env": TASK,
        "exp": run,
        "key": run,
        "model": model,
    }
    scores = {"0": 0.1, "1": NORMALISED}
    write_json(
        root / ".evopolicygym" / "state.json", {**state, "outcome": "completed", "pick": scores, "state": "closed"}
    )
    outcome = {"status": "completed", "error": None, "best_submit_index": 1, "final_score": NORMALISED}
    write_json(
        root / "run.json",
        {
            "schema_version": "0.1",
            "protocol_version": "protocol/v2.0-draft",
            "env": TASK,
            "exp_id": run,
            "model": model,
            "timing": {"start_time": START, "end_time": END, "wall_time_seconds": 60.0},
            "experiment_dimensions": {"episode_budget": BUDGET},
            "outcome": {**outcome, "heldout_returns": list(HELD_OUT), "val_scores": scores},
        },
    )
    return root


def write_submission(root: Path, index: int, returns: Sequence[float], first: int) -> None:
    """Write a submission that is ok: its checkpoint, and its feedback with all steps."""
    checkpoint, feedback = root / "checkpoints" / f"submit_{index:03d}", feedback_of(root, index)
    checkpoint.mkdir(parents=True)
    (checkpoint / "policy.py").write_text(POLICY.format(gain=index))
    write_json(checkpoint / "metrics.json", {"files": 1})
    for local, earned in enumerate(returns):
        steps = int(earned)
        episode = feedback / "episodes" / f"ep_{first + local:03d}"
        episode.mkdir(parents=True)
        rows = [
            {"t": t, "obs": [0.5, t], "action": 1, "reward": 1.0, "terminated": t == steps - 1, "truncated": False,
             "info": {}}
            for t in range(steps)
        ]  # fmt: skip
        (episode / "trajectory.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        (episode / "stdout.txt").write_text("")
        (episode / "stderr.txt").write_text("")
    summary = {
        "schema_version": "0.1",
        "submit_index": index,
        "env": TASK,
        "status": "ok",
        "n_episodes": len(returns),
        "env_instances": list(range(len(returns))),
        "first_global_episode": first,
        "remaining_budget": BUDGET - first - len(returns),
        "returns": list(returns),
        "episode_lengths": [int(earned) for earned in returns],
        "errors": [],
        "timeouts": [],
        "reward_components_per_episode": None,
        "submit_started_at": START,
        "submit_completed_at": END,
        "wall_time_seconds": 0.5,
    }
    write_json(feedback / "summary.json", summary)


def feedback_of(root: Path, index: int) -> Path:
    """Return the feedback of a submission."""
    return root / "workspace" / "feedback" / f"submit_{index:03d}"


def write_json(file: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON file, and its directory."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document))


def change(file: Path, path: str, value: Any) -> None:
    """Set a field of a JSON file, whose path has dots."""
    document = json.loads(file.read_text())
    *parents, name = path.split(".")
    inner = document
    for parent in parents:
        inner = inner[parent]
    inner[name] = value
    write_json(file, document)
