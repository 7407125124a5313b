"""Take environments of other packages, each by its id, through five verbs: ``python benchmarks/third_party.py [ID…]``.

Each is checked, played for a few episodes by random play, filmed, exported and replayed, as a user's commands do it. An
id of a pack with a Python of its own needs the pack. Prints a row for each id; a verb that fails shows its last line.
"""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from evopolicygym.core.pack import distribution_name
from evopolicygym.packs.installation import installed
from evopolicygym.specs import pack_catalog

IDS = {
    "Taxi-v4": "gymnasium",
    "LunarLander-v3": "box2d",
    "Hopper-v5": "mujoco",
    "MiniGrid-DoorKey-8x8-v0": "minigrid",
    "highway-fast-v0": "highway-env",
    "FetchReach-v4": "gymnasium-robotics",
    "NetHackScore-v0": "nle",
    "crafter/CrafterSymbolic-v1": "crafter",
    "C172-TurnHeadingControlTask-Shaping.STANDARD-NoFG-v0": "jsbgym",
    "Meta-World/reach-v3": "metaworld",
    "FlappyBird-v0": "flappy-bird-gymnasium",
    "gymnasium_2048/TwentyFortyEight-v0": "gymnasium-2048",
}
"""Ids, and the package whose version counts."""
PLAYED = ("--agent", "random", "--budget", "4", "--validation", "2", "--held-out", "2", "--split", "public", "--json")
VERBS = ("check environment", "run", "film", "export", "verify --replay")
PATIENCE_S = 600
SHOWN = 100
"""Characters of a failure."""


def main() -> None:
    """Print the table."""
    print(f"| package | id | {' | '.join(VERBS)} |")
    print("| --- | --- | " + " | ".join(["---"] * len(VERBS)) + " |")
    for gymnasium_id in sys.argv[1:] or IDS:
        with TemporaryDirectory() as directory:
            cells = taken_through(gymnasium_id, Path(directory))
        print(f"| {package_of(gymnasium_id)} | `{gymnasium_id}` | {' | '.join(cells)} |", flush=True)


def taken_through(gymnasium_id: str, directory: Path) -> list[str]:
    """Return what came of each verb: ok, or the last line of a failure."""
    checked, _ = call(directory, "check", "environment", gymnasium_id)
    played, output = call(directory, "run", gymnasium_id, *PLAYED)
    if played != "ok":
        return [checked, played, *["-"] * (len(VERBS) - 2)]
    run = json.loads(output)["run"]
    return [
        checked,
        played,
        call(directory, "film", run)[0],
        call(directory, "export", "jsonl", run, "-o", "exported")[0],
        call(directory, "verify", run, "--replay")[0],
    ]


def call(directory: Path, *words: str) -> tuple[str, str]:
    """Run a verb in a directory; return ok or the last line of its failure, and its output."""
    line = [sys.executable, "-m", "evopolicygym", *words]
    done = subprocess.run(line, cwd=directory, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    failed = [text for text in done.stdout.splitlines() if " FAILED " in text] or done.stderr.split("\n")[-2:]
    return ("ok" if done.returncode == 0 else " ".join(" ".join(failed).split())[:SHOWN]), done.stdout


def package_of(gymnasium_id: str) -> str:
    """Return the package of an id with the version that plays it."""
    name = IDS.get(gymnasium_id, "")
    found = pack_catalog.find(gymnasium_id)
    own = installed(found[0].name) if found else None
    versions = {distribution_name(one): number for one, number in own.versions.items()} if own else {}
    try:
        return f"{name} {versions.get(name) or version(name)}" if name else ""
    except PackageNotFoundError:
        return name


if __name__ == "__main__":
    main()
