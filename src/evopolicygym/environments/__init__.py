"""Data first: one TOML file an environment, and the code that makes, resets and steps what a spec declares."""
