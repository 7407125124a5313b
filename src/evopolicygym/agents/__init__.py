"""The players. They know an endpoint and a desk, nothing else."""
