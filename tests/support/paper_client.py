"""A client as the paper's release had them: urllib, three addresses, files in the workspace, nothing of ours."""

import json
import os
import sys
import urllib.request
from pathlib import Path

POLICY = """
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.gain = {gain}

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return int(obs[2] + self.gain * obs[3] > 0)
"""


def get(name: str) -> str:
    with urllib.request.urlopen(os.environ[f"EVOPOLICYGYM_{name}_URL"]) as answer:  # noqa: S310 - the judge's
        return answer.read().decode()


def submit(env_instances: object) -> dict:
    body = json.dumps({"env_instances": env_instances}).encode()
    request = urllib.request.Request(os.environ["EVOPOLICYGYM_SUBMIT_URL"], data=body, method="POST")  # noqa: S310
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - the judge's
        return json.load(answer)


def main() -> None:
    info = json.loads(get("INFO"))
    told = {"task": get("TASK").splitlines()[0], "budget": info["episode_budget"], "rounds": []}
    remaining, gain = info["state"]["remaining_budget"], -1.0
    while remaining:
        Path("system/policy.py").write_text(POLICY.format(gain=gain))
        answer = submit("0-3,7" if remaining >= 5 else list(range(remaining)))
        feedback = Path(f"feedback/submit_{answer['submit_id']:03d}")
        summary = json.loads((feedback / "summary.json").read_text())
        first = feedback / "episodes" / f"ep_{summary['first_global_episode']:03d}" / "trajectory.jsonl"
        steps = [json.loads(line) for line in first.read_text().splitlines()]
        told["rounds"].append(
            {
                "answer": answer["status"],
                "same": answer["summary"] == summary,
                "env_instances": summary["env_instances"],
                "mean_return": summary["mean_return"],
                "keys": sorted(set().union(*steps)),
                "adds_up": sum(step["reward"] for step in steps) == summary["returns"][0],
                "ended": steps[-1]["terminated"] or steps[-1]["truncated"],
            }
        )
        remaining, gain = summary["remaining_budget"], gain + 1.0
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
