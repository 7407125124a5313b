"""What an agent did, read from its transcript and its files: findings with evidence, graded, and never a verdict.

Whether a record is whole and true is described in ``analysis/audit.py`` and shown by ``verify``.
"""
