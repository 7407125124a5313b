"""Where an agent's program works: what it sees, what runs of us beside it, and how it is ended."""
