"""Trained baselines: reinforcement learning by Stable-Baselines3 on train cases, handed out as a policy project.

Data flows one way: ``settings`` (what is trained, and how) and ``budget`` (for how long) go into ``training``, which
plays train cases only (``deal``, ``train_environment``); ``networks`` builds what is learned, and ``export`` writes it
as numpy arrays beside ``project/policy.py``, which plays them without torch. ``agents/builtin/policy.py``
submits such a project. Stable-Baselines3 and torch are imported when training begins, never before.
"""
