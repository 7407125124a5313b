"""Means that others published, and those of runs that ship."""
