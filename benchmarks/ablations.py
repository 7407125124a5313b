"""Plays the ablation suites, smaller than they ship, and prints their effects.

    python benchmarks/ablations.py DIR                                all three, on two environments
    python benchmarks/ablations.py DIR --suite independent_samples --environment cartpole

The agents are `tuner`, `random_search`, and the harness `neutral` with a scripted model, a random search that remembers
as far as it can: it perturbs the best weights of its notes by the returns in its feedback, and draws anew without them.
It reads no text, no trajectory and no output. So the effect of memory is known to be above 0, and those of text and
feedback to be 0.
"""

import argparse
import os
from pathlib import Path

import evopolicygym
from evopolicygym.agents.kit.scripted_model.conversation import Say, Script, Shell
from evopolicygym.agents.kit.scripted_model.server import ScriptedModel

KEY = "ABLATIONS_MODEL_KEY"
ENVIRONMENTS = ["cartpole", "acrobot"]
PROGRAMS = ("tuner", "random_search")
SUITES = {"independent_samples": (), "feedback_ablation": (), "text_ablation": PROGRAMS}
"""The agents of each besides `neutral`; the two optimisers read what their policies print, so they can't do without."""
STEP = """\
python3 - <<'END'
import json, os, pathlib, random, subprocess, urllib.request
with urllib.request.urlopen(os.environ["EVOPOLICYGYM_INFO_URL"]) as answer:
    meta = json.load(answer)["env_meta"]
rows, columns = meta["action_space"]["n"], meta["obs_space"]["shape"][0]
notes = pathlib.Path("notes/weights.json")
known = json.loads(notes.read_text()) if notes.exists() else []
summaries = sorted(pathlib.Path("feedback").glob("*/summary.json"))
returns = [json.loads(path.read_text())["mean_return"] for path in summaries]
best = max(range(len(returns)), key=returns.__getitem__) if returns else None
draw = lambda at, scale: [[at[i][j] + random.gauss(0, scale) for j in range(columns)] for i in range(rows)]
weights = draw([[0.0] * columns] * rows, 1.0) if best is None else draw(known[best], 0.4)
notes.write_text(json.dumps([*known, weights]))
pathlib.Path("system/policy.py").write_text(f'''
import numpy as np

class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.weights = np.array({weights})
    def reset(self, episode_index):
        pass
    def act(self, obs):
        return int(np.argmax(self.weights @ obs))
''')
first = len(returns) * 4
subprocess.run(["./judge", "submit", f"{first}-{first + 3}"])
END"""
SIZES = {"min_episodes": 4, "max_episodes": 4, "validation": 8, "held_out": 16}


def main() -> None:
    """Play what is not played yet, and print the effects of each suite."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where the runs lie")
    parser.add_argument("--suite", action="append", choices=tuple(SUITES))
    parser.add_argument("--environment", action="append")
    parser.add_argument("--budget", type=int, default=32, help="episodes, four to a submission")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    os.environ.setdefault(KEY, "scripted")
    with ScriptedModel(Script((*[Shell(STEP)] * (asked.budget // 4 + 2), Say("Enough.")))) as model:
        asking = {"model_url": f"{model.url}/v1", "model_key": KEY}
        for suite in asked.suite or SUITES:
            for agents, options in ((("neutral:scripted",), asking), (SUITES[suite], {})):
                if agents:
                    played = evopolicygym.run_suite(
                        suite,
                        agents=agents,
                        environments=asked.environment or ENVIRONMENTS,
                        repeats=asked.repeats,
                        jobs=2,
                        on_warning=lambda _warning: None,
                        runs=str(asked.directory),
                        budget=asked.budget,
                        **SIZES,
                        **options,
                    )
            print(f"\n## {suite}\n", flush=True)
            print(evopolicygym.effects(played.directory).to_markdown())


if __name__ == "__main__":
    main()
