"""Tasks for Inspect AI: runs that its solvers and models play, in our own sandbox."""
