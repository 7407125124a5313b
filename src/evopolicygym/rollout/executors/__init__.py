"""Executors: where rollouts play. One file an executor, each against ``core.rollout.Executor``."""
