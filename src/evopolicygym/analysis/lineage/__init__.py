"""Where each submission of a run came from, what kind of change made it, and what came of that."""
