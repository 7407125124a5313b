"""Trained baselines: reinforcement learning with Stable-Baselines3 on train cases, exported as policy projects.

``training`` plays train cases only; ``export`` writes the network as numpy arrays beside ``project/policy.py``, which
plays them without torch. The agent ``policy`` submits such a project. Stable-Baselines3 and torch are imported when
training starts.
"""
