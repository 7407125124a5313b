"""What a spec's environment is held to."""
