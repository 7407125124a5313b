"""What agents are built of: the judge's client, command-line tools, programs, searches, evaluators."""
