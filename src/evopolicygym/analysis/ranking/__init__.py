"""The ranking of entries: comparable runs, scores by task, intervals, ranks, pairs."""
