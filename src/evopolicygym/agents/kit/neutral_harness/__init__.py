"""Conversations with a model, held outside of a sandbox; ``prompt.md`` is the first message of ``neutral``."""
