"""Verbs that check records and parts."""
