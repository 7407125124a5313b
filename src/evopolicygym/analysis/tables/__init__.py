"""Tables: their columns and their formats."""
