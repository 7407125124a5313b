"""Tasks for Inspect AI: runs played by its solvers and models, in this package's sandbox."""
