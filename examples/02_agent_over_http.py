"""An agent that is a program: it edits ``system/policy.py`` and submits it to the judge over HTTP.

Run it with ``python examples/02_agent_over_http.py``. The script has two parts. Started by you, it plays a run whose
agent is this script; started by the run, it is that agent. An agent needs only HTTP and files, so any language works.
In its sandbox the agent reaches only the judge and can't import evopolicygym.
"""

import json
import os
import sys
import tempfile
import urllib.request
from pathlib import Path

POLICY = """
class Policy:
    def __init__(self, obs_space, action_space, env_meta): ...
    def reset(self, episode_index): ...
    def act(self, obs):
        return int({gain} * obs[2] + obs[3] > 0)
"""


def ask(variable: str, body: dict[str, object] | None = None) -> str:
    """Return the judge's answer at the URL in an environment variable."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ[variable], data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return str(answer.read().decode())


def agent() -> None:
    """Read the rules and the task, then submit three policies, each for four episodes."""
    info = json.loads(ask("EVOPOLICYGYM_INFO_URL"))
    task = ask("EVOPOLICYGYM_TASK_URL")
    print(f"{info['episode_budget']} episodes may be spent; the task has {len(task.splitlines())} lines")
    for gain in (0.0, 1.0, 4.0):
        Path("system/policy.py").write_text(POLICY.format(gain=gain), encoding="utf-8")
        answer = json.loads(ask("EVOPOLICYGYM_SUBMIT_URL", {"env_instances": "0-3"}))
        print(f"gain {gain}: mean return {answer['summary']['mean_return']}")


def main() -> None:
    """Play a run whose agent is this file, and print its log and score."""
    import evopolicygym

    runs = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    command = [sys.executable, str(Path(__file__).resolve())]
    run = evopolicygym.run(
        "cartpole", command=command, label="three gains", budget=12, validation=2, held_out=4, split="public", runs=runs
    )
    print((run.path / "logs" / "agent.log").read_text(encoding="utf-8"), end="")
    print(f"submission {run.selected_submission} was selected, score {run.score:.1f}")


if "EVOPOLICYGYM_SUBMIT_URL" in os.environ:
    agent()
else:
    main()
