"""Trains baselines in many environments and has the judge score each on hidden cases; goes on where it stopped.

    python benchmarks/train_baselines.py OUT                           128 episodes in all sixteen, 60 minutes in eight
    python benchmarks/train_baselines.py OUT --minutes 0 --environment reacher --environment acrobot
    python benchmarks/train_baselines.py OUT --episodes 0 --minutes 10 --train-only

In OUT, ``policies/NAME/BUDGET/`` is a policy project with ``training.json``, ``runs/`` holds the run that scored it,
and ``scores/NAME/BUDGET.json`` tells which run that is. What is there is not made anew. Everything is played one after
the other on one core, so several can be started side by side for different environments. Minutes are of processor time.
Tables call all of one budget by one name, ``PPO/SAC 128 episodes``: in each environment the one that fits.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

FEW = (
    *("roundabout", "reacher", "acrobot", "fetch_push", "fetch_pick_and_place", "pusher", "continuous_car"),
    *("half_cheetah", "ant", "bipedal_walker", "parking"),
    *("four_rooms", "door_key", "key_corridor", "obstructed_maze", "car_racing"),
)
"""What is trained for so many episodes, the quick ones first."""
MANY = ("reacher", "acrobot", "continuous_car", "pusher", "half_cheetah", "bipedal_walker", "ant", "four_rooms")
"""What is trained for so many minutes."""
PROGRAM = (sys.executable, "-P", "-m", "evopolicygym")


def main() -> None:
    """Train and score what is not there yet, then print a table of what is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--episodes", type=int, default=128, help="0: leave these out")
    parser.add_argument("--minutes", type=float, default=60, help="0: leave these out")
    parser.add_argument("--environment", action="append", help="only this one; may be given several times")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held-out", type=int, default=32)
    parser.add_argument("--experiment", default="baselines")
    parser.add_argument("--train-only", action="store_true")
    options = parser.parse_args()
    jobs = [(name, "episodes", options.episodes) for name in FEW if options.episodes]
    jobs += [(name, "minutes", options.minutes) for name in MANY if options.minutes]
    jobs = [job for job in jobs if not options.environment or job[0] in options.environment]
    options.out.mkdir(parents=True, exist_ok=True)
    for name, unit, amount in jobs:
        policy = Path("policies", name, f"{amount:g}-{unit}-seed-{options.seed}")
        told = trained(options.out, policy, [name, f"--{unit}", f"{amount:g}", "--seed", str(options.seed)])
        if told and not options.train_only:
            scored(options.out, policy, told, options)
    print_table(options.out)


def trained(out: Path, policy: Path, words: list[str]) -> dict[str, Any] | None:
    """Train where that is not done yet; return what is told of the training, None where it failed."""
    file = out / policy / "training.json"
    if not file.exists():
        if (out / policy).exists():  # an export that was interrupted; training.json is written last
            shutil.rmtree(out / policy)
        print("train baseline", *words, flush=True)
        done = subprocess.run([*PROGRAM, "train", "baseline", *words, "-o", str(policy)], cwd=out, check=False)
        if done.returncode:
            print(f"failed with {done.returncode}", flush=True)
            return None
    return dict(json.loads(file.read_text(encoding="utf-8")))


def scored(out: Path, policy: Path, told: dict[str, Any], options: argparse.Namespace) -> None:
    """Have the judge score a policy where that is not done yet."""
    file = out / "scores" / Path(*policy.parts[1:]).with_suffix(".json")
    if file.exists():
        return
    label = f"PPO/SAC {told['label'].partition(' ')[2]}"
    words = ["run", told["environment"], "--agent", "policy", "--option", f"project={policy}", "--model", label]
    words += ["--budget", "1", "--validation", "1", "--held-out", str(options.held_out), "--seed", str(options.seed)]
    words += ["--experiment", options.experiment, "--runs", "runs", "--workers", "1", "--json"]
    print(*words, flush=True)
    done = subprocess.run([*PROGRAM, *words], cwd=out, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"failed with {done.returncode}", flush=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    outcome = json.loads(done.stdout)
    root = Path(outcome["run"])
    kept = {"run": str(root.relative_to(out.resolve()) if root.is_absolute() else root)}
    kept |= {figure: outcome["outcome"][figure] for figure in ("score", "standard_error", "success_rate")}
    file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def print_table(out: Path) -> None:
    """Print what has been trained and scored so far."""
    print(f"{'environment':22}{'baseline':22}{'steps':>10}{'episodes':>10}{'processor s':>13}  score ± s.e.")
    for file in sorted((out / "policies").glob("*/*/training.json")):
        told = json.loads(file.read_text(encoding="utf-8"))
        score = out / "scores" / file.parent.parent.name / f"{file.parent.name}.json"
        found = json.loads(score.read_text(encoding="utf-8")) if score.exists() else {}
        error = found.get("standard_error")  # unknown of a single case
        shown = f"{found['score']:.2f} ± {'-' if error is None else f'{error:.2f}'}" if found else "-"
        figures = f"{told['steps']:>10,}{told['episodes']:>10,}{told['processor_seconds']:>13,}"
        print(f"{told['environment']:22}{told['label']:22}{figures}  {shown}")


if __name__ == "__main__":
    main()
