"""Sandboxes of agents' programs: what a program sees, this package's processes inside, and how it is ended."""
