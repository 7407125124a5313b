"""Installed packs: which are present, in which Python, and their installation."""
