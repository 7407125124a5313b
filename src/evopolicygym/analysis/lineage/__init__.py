"""The lineage of submissions: where each came from, what kind of edit made it, and whether it paid."""
