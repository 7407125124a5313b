"""Where things lie in the checkout."""

from pathlib import Path

SUPPORT = Path(__file__).parent
"""Holds what tests share: to be on the path of programs that play by it."""
ROOT = SUPPORT.parents[1]
