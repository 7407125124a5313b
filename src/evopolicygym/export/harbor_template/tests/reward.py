"""Writes the reward of a run that the judge scored: 0 is the mean return of random play, 1 that of the reference.

The reward is not clipped: a policy may be worse than random play or better than the reference, which is not an optimum.
A run without a playable submission has 0. If the judge failed there is no reward, as the agent isn't to blame.
"""

import json
import sys
from pathlib import Path
from typing import Any

OUTCOME, LOGS, ABOUT = Path("/outcome"), Path("/logs/verifier"), Path("/tests/anchors.json")
"""The judge's outcome; the directory of the reward; the anchors of the environment."""


def main() -> int:
    """Write the reward and its details; return 1 if there is none."""
    about = json.loads(ABOUT.read_text(encoding="utf-8"))
    if (OUTCOME / "outcome.json").exists():
        details = details_of(json.loads((OUTCOME / "outcome.json").read_text(encoding="utf-8")), about)
        write("reward-details.json", details)
        write("reward.json", {"reward": details["reward"]})
        return 0
    if (OUTCOME / "failed.json").exists():
        failure = json.loads((OUTCOME / "failed.json").read_text(encoding="utf-8"))
        return report_problem(f"The judge failed with exit code {failure['exit_code']}.", failure["said"])
    return report_problem("The run was not scored in time, or its outcome could not be fetched.", [])


def details_of(run: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """Return the reward and the figures behind it; ``run`` is the output of ``evopolicygym serve --json``."""
    outcome, random, reference = run["outcome"], about["random_anchor"], about["reference_anchor"]
    score = outcome.get("score")
    return {
        "reward": 0.0 if score is None else (score - random) / (reference - random),
        "is_clipped": False,
        "environment": about["environment"],
        "score": score,
        "standard_error": outcome.get("standard_error"),
        "success_rate": outcome.get("success_rate"),
        "held_out_returns": outcome.get("held_out_returns"),
        "random_anchor": random,
        "reference_anchor": reference,
        "status": outcome.get("status"),
        "closed": outcome.get("closed"),
        "selected_submission": outcome.get("selected_submission"),
        "validation_mean": outcome.get("validation_mean"),
        "budget": run["budget"],
        "split": run["split"],
        "isolation": run["isolation"],
        "versions": run["fingerprint"]["versions"],
        "run_id": run["run_id"],
    }


def report_problem(problem: str, log: list[str]) -> int:
    """Report why there is no reward; return 1."""
    write("reward-details.json", {"reward": None, "problem": problem, "judge_said": log})
    print(problem, *log, sep="\n", file=sys.stderr)
    return 1


def write(name: str, document: dict[str, Any]) -> None:
    """Write a document for Harbor."""
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / name).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
