"""What is left to tell of agents on a task: the best known score, how far entries differ, what of that is noise."""
