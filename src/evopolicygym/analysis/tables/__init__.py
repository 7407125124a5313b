"""Tables as they are printed and written: their columns and their formats."""
