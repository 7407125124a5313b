"""P04: imports a simulator and plays ahead in it

submission: ok
episodes: ok
guarantees: host-files-hidden
"""

import importlib

SIMULATORS = (
    "gymnasium gym mujoco minigrid highway_env gymnasium_robotics Box2D pygame ale_py dm_control pybullet evopolicygym"
).split()


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        for name in SIMULATORS:
            try:
                importlib.import_module(name)
                print(f"LEAK: imported {name}")
            except ImportError:
                pass

    def reset(self, episode_index):
        try:
            import gymnasium

            simulator = gymnasium.make("CartPole-v1")
            simulator.reset(seed=0)
            simulator.step(0)
            print("LEAK: took a step nobody counted")
        except ImportError:
            pass

    def act(self, obs):
        return 0
