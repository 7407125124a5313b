"""Adapters: modules that a pack imports besides its simulator's, so that ``gymnasium.make`` and ``reset`` do all.

Each registers what its simulator does not, or lets the seed of a reset decide the episode where a simulator takes it
otherwise. An adapter imports its simulator, and is thus imported only by a process that plays its pack.
"""
