"""The judge: takes submissions, charges, plays, publishes, selects and scores."""
