"""Environments as Harbor tasks: a directory each, with the judge in a container beside the agent's."""
