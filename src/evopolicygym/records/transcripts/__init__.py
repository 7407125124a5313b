"""Readers of agents' transcripts, a module for each format."""
