"""A model's conversations outside the sandbox; ``prompt.md`` is the first message of the agent ``neutral``."""
