"""Suites: many runs planned, played together and gone on with. The tables of those that ship lie here too, as data."""
