"""A model server with scripted answers, for testing agents offline: ``server`` serves, ``conversation`` has scripts."""
