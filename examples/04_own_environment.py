"""A custom environment: one TOML file names a Gymnasium id and describes in words what an agent needs to know.

Run it with ``python examples/04_own_environment.py``. It writes ``swing.toml`` for Gymnasium's Pendulum, checks it as
``evopolicygym check environment swing.toml`` does, loads it, and has an agent play it.
"""

import sys
import tempfile
from pathlib import Path

import evopolicygym
from evopolicygym.checks.environment import check

SPEC = """
id = "Pendulum-v1"
family = "mine"
kind = "tuning"
max_steps = 100
objective = "Swing a pendulum up and hold it upright. Mass 1 kg, length 1 m, gravity 10 m/s²; a step is 0.05 s."
reward = "-(angle² + 0.1 angular velocity² + 0.001 torque²), with the angle from upright in [-pi, pi]."
termination = "Never terminates. Truncated after 100 steps."
observation = ["cosine of the angle from upright", "sine of that angle", "angular velocity, rad/s, from -8 to 8"]
action = ["torque, N m, from -2 to 2"]
idle_action = [0.0]
"""

place = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
place.mkdir(parents=True, exist_ok=True)
spec = place / "swing.toml"
spec.write_text(SPEC, encoding="utf-8")

findings = list(check(spec.as_posix()))
for finding in findings:
    print(f"{'passes' if finding.ok else 'fails'}: {finding.name} {finding.detail}".rstrip())

# The environment that policies play in. Steps here count for no run.
environment = evopolicygym.load_environment(spec)
print(f"{environment.spec.name}: observation space {environment.observation_space}")

run = evopolicygym.run(
    spec, agent="random_search", budget=8, validation=2, held_out=4, split="public", runs=place / "runs"
)
print(f"{run.task}: all {sum(finding.ok for finding in findings)} findings pass, score {run.score:.1f}")
