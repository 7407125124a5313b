"""Environments as data: a TOML file is the whole of one, and its name is the environment's."""
