"""Serving: HTTP in a thread of its own, for every door here. What a door lets through is not told in this room."""
