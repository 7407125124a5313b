"""The headroom of tasks: the best known score, how far entries differ, and how much of that is noise."""
