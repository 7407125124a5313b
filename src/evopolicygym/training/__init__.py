"""Training sessions: tasks drawn from a seed, which an agent learns to improve policies on, and their server."""
