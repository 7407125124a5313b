"""Verbs that play runs, and what they are played with."""
