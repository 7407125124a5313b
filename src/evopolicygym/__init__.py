"""EvoPolicyGym: how well does an agent improve a policy through feedback?

The rooms of the house, and which may import which, are drawn in ``docs/architecture.md``.
"""

__version__ = "0.1.0"
