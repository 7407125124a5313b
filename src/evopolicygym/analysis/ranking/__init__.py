"""Runs side by side: what may stand together, scores by task, intervals, ranks, pairs."""
