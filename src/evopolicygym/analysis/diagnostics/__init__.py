"""How an agent improved: one file a diagnostic, each a pure function of one run's record."""
