"""The run that an agent is checked by."""
