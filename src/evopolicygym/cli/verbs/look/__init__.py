"""Verbs that show what runs came to."""
