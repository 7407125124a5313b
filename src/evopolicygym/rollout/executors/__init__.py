"""The executors that ship, a file for each; each implements ``core.rollout.Executor``."""
