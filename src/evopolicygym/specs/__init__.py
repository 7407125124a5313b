"""Environments as data: one TOML file each, named after the environment."""
