"""Reading: pure functions of records. Imports nothing of the making wing."""
