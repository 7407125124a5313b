"""The diagnostics of how an agent improved: a file each, each a pure function of a run's record."""
