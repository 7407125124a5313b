"""Packs as they lie on this machine: which are installed, in which Python, and how one gets there."""
