"""The referee: takes submissions, charges, plays, publishes, selects and scores."""
