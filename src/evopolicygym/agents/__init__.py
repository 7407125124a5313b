"""The players. They know an endpoint and a workspace, nothing else."""
