"""Whether an executor plays as this machine does."""
