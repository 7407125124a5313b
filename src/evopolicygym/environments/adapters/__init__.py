"""Adapters: modules that packs import besides their simulator's, so that ``gymnasium.make`` and ``reset`` suffice.

An adapter registers environments that its simulator doesn't, or seeds the episode by ``reset`` if the simulator is
seeded otherwise. It imports its simulator, so only processes that play its pack import it.
"""
