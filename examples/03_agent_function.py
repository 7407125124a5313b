"""An agent that is a Python function: it gets a session, reads the task and submits policies.

Run it with ``python examples/03_agent_function.py``. The function runs in this process with your rights. The policies
that it submits run in the sandbox, each episode in a new process.
"""

import json
import sys
import tempfile

import evopolicygym

POLICY = """
class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.weights = {weights}

    def reset(self, episode_index): ...

    def act(self, obs):
        return int(sum(weight * value for weight, value in zip(self.weights, obs)) > 0)
"""


def by_feedback(session: evopolicygym.Session) -> str:
    """Submit a first guess, read how its episodes ended, and submit an improved policy."""
    print(session.task.splitlines()[0])
    first = session.submit(POLICY.format(weights=[0, 0, 1, 0]), episodes=4)
    print(f"first guess: mean return {first.mean}, {first.remaining} episodes left")

    # Feedback is in files: here the last observation of the first episode.
    trajectory = (first.directory / "episodes" / "ep_000" / "trajectory.jsonl").read_text(encoding="utf-8")
    end = json.loads(trajectory.splitlines()[-1])
    _position, _velocity, angle, angular_velocity = end["final_obs"]
    print(f"it ended at angle {angle:.2f} with angular velocity {angular_velocity:.2f}")

    # The pole swings ever faster, so the second policy reacts to the velocities as well.
    second = session.submit(POLICY.format(weights=[0.1, 0.3, 2, 2]), episodes=session.remaining)
    print(f"second guess: mean return {second.mean}, {second.remaining} episodes left")
    return "velocities helped" if (second.mean or 0) > (first.mean or 0) else "velocities did not help"


runs = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
run = evopolicygym.run(
    "cartpole", agent=by_feedback, budget=8, validation=2, held_out=4, split="public", seed=0, runs=runs
)
print(run)
print(f"held-out returns: {run.held_out_returns}")
